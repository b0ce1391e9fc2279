# Generated from src/lockfast/dbapi/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Runs statements on the caller's connection; the source of the sync flavour."""
