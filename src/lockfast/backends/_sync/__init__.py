# Generated from src/lockfast/backends/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The port: the methods that every store implements."""
