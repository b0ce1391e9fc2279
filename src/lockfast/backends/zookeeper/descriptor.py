"""ZooKeeper's URLs, and the client library whose clients are accepted in place of a URL."""

from __future__ import annotations

from lockfast.core.descriptor import ForeignClients, StoreDescriptor

SUPPORTED_KAZOO = "pip install 'kazoo>=2.11,<2.12', the versions that Lockfast supports"
"""What to do if the installed kazoo is of no use; the range is the one of the extra `zookeeper`."""

DESCRIPTOR = StoreDescriptor(
    backend="ZooKeeperBackend",
    schemes={"zookeeper": "zookeeper://host1,host2,host3/path"},
    extra="zookeeper",
    driver_needs=SUPPORTED_KAZOO,
    # Both flavours accept a KazooClient, because kazoo's only client does its work in its own
    # threads.
    clients=(ForeignClients(packages=frozenset({"kazoo"}), listed_as="KazooClient"),),
)
