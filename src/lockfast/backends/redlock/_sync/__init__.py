# Generated from src/lockfast/backends/redlock/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The asyncio source of the backend; the sync flavour is generated from it."""
