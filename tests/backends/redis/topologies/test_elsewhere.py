"""Servers that clients reach at other addresses than the servers announce.

This happens behind a NAT and in containers. redis-py clients can be configured for it, and Lockfast
reads their configuration.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel

from lockfast import AsyncLocks, Locks
from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.redis import until
from lockfast_challenge.servers.redis_sentinel import SERVICE

ELSEWHERE = "127.0.0.2"


@pytest.fixture
def proxies(cluster):
    """One proxy in front of each node of the cluster, keyed by the node's own port."""
    with ExitStack() as stack:
        yield {one.port: stack.enter_context(Proxy(one.port)) for one in cluster.servers}


@pytest.fixture
def elsewhere(proxies):
    def remap(address: tuple[str, int]) -> tuple[str, int]:
        host, port = address
        return host, proxies[port].port if port in proxies else port

    return remap


@pytest.fixture
def names(cluster) -> list[str]:
    """One name for each master, in a slot that this master serves."""
    return [cluster.name_on(one, "door") for one in cluster.masters()]


def test_a_clusters_nodes_are_reached_where_the_client_says(cluster, proxies, elsewhere, names):
    first = cluster.servers[0].port
    client = redis.cluster.RedisCluster("127.0.0.1", first, address_remap=elsewhere)
    with Locks.from_client(client) as locks:
        client.close()
        until(lambda: not any(one.connections for one in proxies.values()), what="it is closed")

        for name in names:
            locks.lock(name, timeout=2).acquire().release()

        assert all(proxies[one.port].connections for one in cluster.masters())


def test_a_node_that_was_asked_in_vain_points_there_too(cluster, proxies, elsewhere, names):
    """The address in a MOVED reply is remapped too: it is the one that the node announces."""
    first = cluster.servers[0].port
    client = redis.cluster.RedisCluster("127.0.0.1", first, address_remap=elsewhere)
    with Locks.from_client(client) as locks:
        client.close()
        for name in names:
            locks.lock(name, timeout=2).acquire().release()
        [old, *_] = cluster.masters()
        replica = cluster.replica_of(old)
        cluster.fail_over(old)

        locks.lock(names[0], timeout=5).acquire().release()

        assert proxies[replica.port].connections


def test_a_clusters_nodes_are_reached_where_an_asyncio_client_says(
    cluster, proxies, elsewhere, names
):
    async def run() -> None:
        first = cluster.servers[0].port
        client = redis.asyncio.cluster.RedisCluster("127.0.0.1", first, address_remap=elsewhere)
        async with AsyncLocks.from_client(client) as locks:
            assert not any(one.connections for one in proxies.values())

            for name in names:
                async with locks.lock(name, timeout=2):
                    pass

            assert all(proxies[one.port].connections for one in cluster.masters())

    asyncio.run(run())


@pytest.fixture
def at_two_addresses(sentinels):
    """Make the master listen at a second address, which the Sentinels do not know."""
    with sentinels.master.client() as client:
        client.config_set("bind", f"127.0.0.1 {ELSEWHERE}")
        yield client
        client.config_set("bind", "127.0.0.1")


def _reached_at(client: redis.Redis) -> set[str]:
    """Return the master's addresses at which clients are connected and run scripts."""
    clients = client.client_list()
    return {one["laddr"].rpartition(":")[0] for one in clients if one["cmd"] == "evalsha"}


def test_a_watched_master_is_reached_where_the_client_says(sentinels, at_two_addresses):
    addresses = [("127.0.0.1", one.port) for one in sentinels.sentinels]
    watchers = redis.sentinel.Sentinel(addresses, force_master_ip=ELSEWHERE)
    client = watchers.master_for(SERVICE)

    with Locks.from_client(client) as locks, locks.lock("door", timeout=2):
        assert ELSEWHERE in _reached_at(at_two_addresses)

    for one in (client, *watchers.sentinels):
        one.close()


def test_a_watched_master_is_reached_where_an_asyncio_client_says(sentinels, at_two_addresses):
    addresses = [("127.0.0.1", one.port) for one in sentinels.sentinels]

    async def run() -> None:
        watchers = redis.asyncio.sentinel.Sentinel(addresses, force_master_ip=ELSEWHERE)
        client = watchers.master_for(SERVICE)
        async with AsyncLocks.from_client(client) as locks, locks.lock("door", timeout=2):
            assert ELSEWHERE in _reached_at(at_two_addresses)
        for one in (client, *watchers.sentinels):
            await one.aclose()

    asyncio.run(run())
