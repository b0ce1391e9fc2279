# Generated from src/lockfast/backends/waiting/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The part of waiting that is written once for tasks and threads."""
