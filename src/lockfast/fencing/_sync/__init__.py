# Generated from src/lockfast/fencing/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The guards for a database or a Redis server; the source of the sync flavour."""
