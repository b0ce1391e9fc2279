# Generated from src/lockfast/backends/memcached/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The verbs on memcached: the source of both flavours."""
