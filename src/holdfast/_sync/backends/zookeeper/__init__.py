# Generated from src/holdfast/_async/backends/zookeeper/__init__.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""`zookeeper://`: locks in a ZooKeeper ensemble."""

from __future__ import annotations

from holdfast._sync.backends.zookeeper.backend import ZooKeeperBackend

__all__ = ["ZooKeeperBackend"]
