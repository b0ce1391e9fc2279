# Generated from src/lockfast/backends/zookeeper/_async/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The ZooKeeper backend: the source of both flavours."""
