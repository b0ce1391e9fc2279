# Generated from src/lockfast/backends/postgresql/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The PostgreSQL backend, written once as the source of both flavours."""
