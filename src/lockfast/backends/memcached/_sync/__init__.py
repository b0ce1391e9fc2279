# Generated from src/lockfast/backends/memcached/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The memcached backend: the source of both flavours."""
