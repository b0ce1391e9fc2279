# Generated from src/lockfast/sql_rows/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Works on rows of the caller's own tables; the source of the sync flavour."""
