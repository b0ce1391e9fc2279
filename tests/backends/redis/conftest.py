"""Fixtures shared by the Redis tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from backends.redis.scripted import Scripted
from servers.redis import shared_server
from servers.redis_cluster import shared_cluster

from lockfast_challenge.servers.redis_cluster import ClusterServers


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    """The scripts on an empty server, with a clock that the test sets."""
    store = Scripted()
    yield store
    store.close()


@pytest.fixture
def cluster() -> ClusterServers:
    """Three masters with one replica each, all healthy when the test begins."""
    found = shared_cluster()
    found.heal()
    return found


@pytest.fixture
def masters_stay(cluster: ClusterServers) -> Iterator[None]:
    """Keep replicas from taking over from a master that pauses for a moment.

    Unlike a longer node timeout, this setting does not slow down the spread of changes between
    nodes.
    """
    for one in cluster.servers:
        cluster.ask(one, "CONFIG", "SET", "cluster-replica-no-failover", "yes")
    yield
    for one in cluster.servers:
        cluster.ask(one, "CONFIG", "SET", "cluster-replica-no-failover", "no")


@pytest.fixture
def url() -> str:
    """The URL of an empty server."""
    server = shared_server()
    with server.client() as client:
        client.flushall()
    return server.url
