"""ZooKeeper's URLs, and the client library whose clients are accepted in place of a URL."""

from __future__ import annotations

from lockfast.core.descriptor import ForeignClients, StoreDescriptor

DESCRIPTOR = StoreDescriptor(
    backend="ZooKeeperBackend",
    schemes={"zookeeper": "zookeeper://host1,host2,host3/path"},
    extra="zookeeper",
    # Both flavours accept a KazooClient, because kazoo's only client does its work in its own
    # threads.
    clients=(ForeignClients(packages=frozenset({"kazoo"}), listed_as="KazooClient"),),
)
