"""`zookeeper://`: locks in a ZooKeeper ensemble."""

from __future__ import annotations

from holdfast._async.backends.zookeeper.backend import AsyncZooKeeperBackend

__all__ = ["AsyncZooKeeperBackend"]
