# Generated from src/lockfast/backends/memory/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The backend on the in-memory store: the source of both flavours."""
