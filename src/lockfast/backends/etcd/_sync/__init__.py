# Generated from src/lockfast/backends/etcd/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The etcd backend and its transport to the cluster's members: asyncio flavour."""
