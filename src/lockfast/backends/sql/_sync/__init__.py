# Generated from src/lockfast/backends/sql/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""What SQL stores share that waits: see each module."""
