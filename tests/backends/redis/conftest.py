"""What the tests of Redis share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backends.redis.scripted import Scripted
from servers.redis import shared_server
from servers.redis_cluster import shared_cluster

from lockfast.challenge.servers.redis_cluster import ClusterServers


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """The scripts on a server that is empty, by a clock that the test sets."""
    store = Scripted()
    yield store
    store.close()


@pytest.fixture
def cluster() -> ClusterServers:
    """Three masters with a replica each, all well when the test begins."""
    found = shared_cluster()
    found.heal()
    return found


@pytest.fixture
def masters_stay(cluster: ClusterServers) -> Iterator[None]:
    """Let no replica take over from a master that stands still for a moment.

    Unlike with a longer node timeout, what changes is told to all nodes as soon as ever.
    """
    for one in cluster.servers:
        cluster.ask(one, "CONFIG", "SET", "cluster-replica-no-failover", "yes")
    yield
    for one in cluster.servers:
        cluster.ask(one, "CONFIG", "SET", "cluster-replica-no-failover", "no")


@pytest.fixture
def url() -> str:
    """The URL of a server that is empty."""
    server = shared_server()
    with server.client() as client:
        client.flushall()
    return server.url
