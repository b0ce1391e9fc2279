"""Locks made from an application's client: its settings are read, nothing more."""

from __future__ import annotations

import asyncio

import fakeredis
import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel
import valkey
import valkey.asyncio
from servers.redis import shared_server, shared_tls_server
from servers.redis_cluster import shared_tls_cluster
from servers.redis_sentinels import shared_closed_sentinels

from lockfast import AsyncLocks, ConfigurationError, Locks
from lockfast_challenge.servers.redis import RedisServer
from lockfast_challenge.servers.redis_sentinel import SERVICE


def cycle(client: object) -> str:
    """Take and release a lock with a sync client's settings, and return the location."""
    with Locks.from_client(client, request_timeout=8) as locks:
        with locks.lock("door", timeout=10) as lease:
            assert lease.token > 0
        return locks.location


def async_cycle(make) -> str:
    async def run() -> str:
        client = make()
        async with AsyncLocks.from_client(client, request_timeout=8) as locks:
            async with locks.lock("door", timeout=10) as lease:
                assert lease.token > 0
            where = locks.location
        # Lockfast has not closed the client.
        assert await client.ping()
        await close(client)
        return where

    return asyncio.run(run())


async def close(client) -> None:
    await getattr(client, "aclose", client.close)()  # redis-py 5.0.0 has no aclose


def test_a_plain_client_lends_its_settings():
    """Lockfast copies the client's settings, but opens and closes connections of its own."""
    server = shared_server()
    with redis.Redis(port=server.port, db=3, single_connection_client=True) as client:
        client.ping()

        assert cycle(client) == f"redis://localhost:{server.port}/3"

        assert client.ping()
        assert client.info("stats")["total_connections_received"] > 1
    with server.client(db=3) as client:
        assert client.keys() == [b"lockfast:{door}:door"]


def test_an_asyncio_client_lends_its_settings():
    server = shared_server()

    where = async_cycle(lambda: redis.asyncio.Redis(port=server.port))

    assert where == f"redis://localhost:{server.port}/0"


def test_a_password_is_used_and_not_shown():
    with RedisServer("--requirepass", "s3cret") as server:
        with redis.Redis(port=server.port, password="s3cret") as client:
            where = cycle(client)
            with Locks.from_client(client, request_timeout=8) as locks:
                assert "s3cret" not in repr(locks)
        assert "s3cret" not in where


def test_a_socket_of_this_machine(tmp_path):
    path = tmp_path / "redis.sock"
    with RedisServer("--unixsocket", str(path)):
        with redis.Redis(unix_socket_path=str(path)) as client:
            assert cycle(client) == f"unix://{path}"
        with Locks(f"unix://{path}?db=2") as locks, locks.lock("door", timeout=10):
            assert locks.location == f"unix://{path}"
        with redis.Redis(unix_socket_path=str(path), db=2) as client:
            assert client.keys() == [b"lockfast:{door}:door"]


def test_a_client_that_sentinels_made(sentinels):
    addresses = [("127.0.0.1", one.port) for one in sentinels.sentinels]
    sentinel = redis.sentinel.Sentinel(addresses)
    client = sentinel.master_for(SERVICE)

    where = cycle(client)

    assert client.ping()
    with pytest.raises(ConfigurationError, match="master_for"):
        Locks.from_client(sentinel.slave_for(SERVICE))
    for one in (client, *sentinel.sentinels):
        one.close()

    assert where == sentinels.url


def test_an_asyncio_client_that_sentinels_made(sentinels):
    addresses = [("127.0.0.1", one.port) for one in sentinels.sentinels]

    async def run() -> str:
        sentinel = redis.asyncio.sentinel.Sentinel(addresses)
        client = sentinel.master_for(SERVICE)
        async with AsyncLocks.from_client(client, request_timeout=8) as locks:
            async with locks.lock("door", timeout=10):
                pass
            where = locks.location
        for one in (client, *sentinel.sentinels):
            await close(one)
        return where

    assert asyncio.run(run()) == sentinels.url


def test_a_client_of_a_cluster(cluster):
    port = cluster.servers[0].port
    with redis.cluster.RedisCluster("127.0.0.1", port) as client:
        where = cycle(client)
        assert client.ping()

    made_asyncio = async_cycle(lambda: redis.asyncio.cluster.RedisCluster("127.0.0.1", port))

    assert where.startswith("redis+cluster://")
    assert made_asyncio == f"redis+cluster://127.0.0.1:{port}"


def test_a_client_that_speaks_tls():
    """The certificates of a TLS client are used as well."""
    server = shared_tls_server()
    options = {"host": "127.0.0.1", "port": server.port, "ssl": True, **server.client_options}
    where = f"{server.url}/0"

    with redis.Redis(**options) as client:
        assert cycle(client) == where
    with valkey.Valkey(**options) as client:
        assert cycle(client) == where
    assert async_cycle(lambda: redis.asyncio.Redis(**options)) == where
    assert async_cycle(lambda: valkey.asyncio.Valkey(**options)) == where


def test_a_client_of_a_cluster_that_speaks_tls():
    servers = shared_tls_cluster()
    port = servers.servers[0].port
    options = {"host": "127.0.0.1", "port": port, "ssl": True, **servers.client_options}

    with redis.cluster.RedisCluster(**options) as client:
        where = cycle(client)
    made_asyncio = async_cycle(lambda: redis.asyncio.cluster.RedisCluster(**options))

    assert where.startswith("rediss+cluster://")
    assert made_asyncio == f"rediss+cluster://127.0.0.1:{port}"


def test_a_client_that_sentinels_made_which_speak_tls_and_ask_for_passwords():
    """The Sentinels and the server each have a password of their own."""
    servers = shared_closed_sentinels()
    addresses = [("127.0.0.1", one.port) for one in servers.sentinels]
    options = {**servers.client_options, "ssl": True}
    of_sentinels = {**options, "password": options.pop("sentinel_password")}
    del of_sentinels["sentinel_password"]

    sentinel = redis.sentinel.Sentinel(addresses, sentinel_kwargs=of_sentinels, **options)
    client = sentinel.master_for(SERVICE)
    assert cycle(client) == servers.url
    for one in (client, *sentinel.sentinels):
        one.close()

    async def run() -> str:
        sentinel = redis.asyncio.sentinel.Sentinel(
            addresses, sentinel_kwargs=of_sentinels, **options
        )
        client = sentinel.master_for(SERVICE)
        async with (
            AsyncLocks.from_client(client, request_timeout=8) as locks,
            locks.lock("door", timeout=10),
        ):
            where = locks.location
        for one in (client, *sentinel.sentinels):
            await close(one)
        return where

    assert asyncio.run(run()) == servers.url


def test_the_other_flavour_is_refused_by_name():
    with (
        redis.Redis() as client,
        pytest.raises(ConfigurationError, match=r"give it to lockfast\.Locks\.from_client"),
    ):
        AsyncLocks.from_client(client)
    with pytest.raises(
        ConfigurationError, match=r"an asyncio client; give it to lockfast\.AsyncLocks"
    ):
        Locks.from_client(redis.asyncio.Redis())


def test_a_fake_is_refused_and_shown_the_way():
    with pytest.raises(ConfigurationError, match="memory://"):
        Locks.from_client(fakeredis.FakeRedis())


def test_a_stranger_is_refused_with_what_is_accepted():
    with pytest.raises(ConfigurationError, match=r"no backend is known for builtins\.dict"):
        Locks.from_client({})


def test_valkey_is_known_by_its_looks():
    """Valkey clients are accepted although none of their classes comes from redis-py."""
    port = shared_server().port

    with valkey.Valkey(port=port) as client:
        assert cycle(client) == f"redis://localhost:{port}/0"
    assert async_cycle(lambda: valkey.asyncio.Valkey(port=port)) == f"redis://localhost:{port}/0"
