"""The URLs of ZooKeeper, and the client that knows one."""

from __future__ import annotations

from lockfast.core.declaring import Declaration, ForeignClients

DECLARATION = Declaration(
    backend="ZooKeeperBackend",
    schemes={"zookeeper": "zookeeper://host1,host2,host3/path"},
    extra="zookeeper",
    # Either flavour takes it: kazoo's one client does its work in threads of its own.
    clients=(ForeignClients(packages=frozenset({"kazoo"}), listed_as="KazooClient"),),
)
