# Generated from src/lockfast/connections/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Statements on a connection of the caller's; the source of the sync flavour."""
