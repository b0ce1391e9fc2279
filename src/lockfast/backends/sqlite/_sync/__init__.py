# Generated from src/lockfast/backends/sqlite/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The SQLite backend: the source of both flavours."""
