# Generated from src/holdfast/_async/backends/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""One file per store."""
