"""A store accepts its own sequencers under any of its addresses, and rejects other stores'."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from servers import etcd, mariadb, postgresql, redis, redis_cluster, redis_sentinels, zookeeper

from lockfast.core.lease_text import sequencer_from_text


def of_memory(name: str) -> tuple[str, str]:
    return f"memory://{name}", f"memory://{name}"


def of_sqlite(directory: str) -> tuple[str, str]:
    path = f"{directory}/locks.db"
    return f"sqlite://{path}", f"sqlite://{directory}/../{directory.rpartition('/')[2]}/locks.db"


def of_mariadb(_: str) -> tuple[str, str]:
    server = mariadb.shared_server()
    server.run("CREATE DATABASE IF NOT EXISTS test")
    url = server.url()
    return url, url.replace("mariadb://", "mysql://")


def of_postgresql(_: str) -> tuple[str, str]:
    url = postgresql.shared_server().url()
    return url, url.replace("postgresql://", "postgres://")


def by_host(url: str) -> tuple[str, str]:
    """Return the URL, and another URL with a different host name of the same server."""
    return url, url.replace("127.0.0.1", "localhost")


def by_order(url: str) -> tuple[str, str]:
    """Return the URL, and another URL that lists the same nodes in reverse order."""
    scheme, _, rest = url.partition("://")
    nodes, slash, path = rest.partition("/")
    turned = ",".join(reversed(nodes.split(",")))
    return url, f"{scheme}://{turned}{slash}{path}"


STORES: dict[str, Callable[[str], tuple[str, str]]] = {
    "memory": of_memory,
    "sqlite": of_sqlite,
    "mariadb": of_mariadb,
    "mariadb by host": lambda _: by_host(of_mariadb(_)[0]),
    "postgresql": of_postgresql,
    "postgresql by host": lambda _: by_host(of_postgresql(_)[0]),
    "redis": lambda _: by_host(redis.shared_server().url),
    "redis cluster": lambda _: by_order(redis_cluster.shared_cluster().url),
    "redis sentinels": lambda _: by_order(redis_sentinels.shared_sentinels().url),
    "zookeeper": lambda _: by_host(zookeeper.shared_server().url),
    "etcd": lambda _: by_host(etcd.shared_server().url),
}
TABLES = ("mariadb", "postgresql")


@pytest.fixture
def spellings(request, tmp_path, name) -> Sequence[str]:
    """Two addresses of the store under test."""
    where = name if request.param == "memory" else str(tmp_path)
    return STORES[request.param](where)


@pytest.mark.parametrize("spellings", STORES, indirect=True)
def test_the_same_store_knows_it_by_another_address(flavour, spellings, namespace, name):
    """The service that checks a sequencer may use another address than the lock's holder."""
    ours, theirs = (flavour.locks(url, namespace=namespace) for url in spellings)

    lease = ours.lock(name).acquire()
    text = lease.sequencer
    assert theirs.is_current(text)

    lease.release()
    assert not theirs.is_current(text)


@pytest.mark.parametrize("spellings", STORES, indirect=True)
def test_another_namespace_of_the_same_server_does_not_know_it(flavour, spellings, namespace, name):
    """A sequencer of another namespace is rejected, even with the same name and an equal token."""
    url, _ = spellings
    ours = flavour.locks(url, namespace=namespace)
    others = flavour.locks(url, namespace=f"{namespace}-other")

    lease, other = ours.lock(name).acquire(), others.lock(name).acquire()
    alike = replace(sequencer_from_text(lease.sequencer), token=other.token).to_text()

    assert not others.is_current(lease.sequencer)
    assert not others.is_current(alike)
    assert others.is_current(other.sequencer)


@pytest.mark.parametrize("spellings", TABLES, indirect=True)
def test_another_table_of_the_same_server_does_not_know_it(flavour, spellings, namespace, name):
    """Two tables are two stores, even if both clients use the same URL."""
    url, _ = spellings
    ours = flavour.locks(url, namespace=namespace)
    others = flavour.locks(url, namespace=namespace, table="other_locks")

    lease, other = ours.lock(name).acquire(), others.lock(name).acquire()
    alike = replace(sequencer_from_text(lease.sequencer), token=other.token).to_text()

    assert not others.is_current(alike)
    assert others.is_current(other.sequencer)


def test_after_a_store_has_lost_everything_none_of_before_is_current(flavour, namespace, name):
    """A sequencer from before the loss is never current again, whether the name is free or held."""
    server = redis.shared_server()
    locks, others = (flavour.locks(server.url, namespace=namespace) for _ in range(2))
    text = locks.lock(name, renew=False).acquire().sequencer
    assert others.is_current(text)

    with server.client() as client:
        client.flushall()

    assert not others.is_current(text)
    successor = others.lock(name).acquire()
    assert not locks.is_current(text)
    assert locks.is_current(successor.sequencer)
