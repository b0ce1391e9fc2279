# Generated from src/lockfast/backends/sessions/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The verbs on a session, and what keeps it alive; the sync flavour is generated from this."""
