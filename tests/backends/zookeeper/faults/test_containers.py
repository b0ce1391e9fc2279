"""The server deletes the node of a name that nobody uses, and no client notices."""

from __future__ import annotations

import pytest

from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.zookeeper import ZooKeeperServer


@pytest.fixture(scope="module")
def tidy():
    """A server that looks for unused names twenty times a second, not once a minute."""
    quickly = "-Dznode.container.checkIntervalMs=50"
    with ZooKeeperServer(java=(quickly, "-Dznode.container.maxPerMinute=100000")) as one:
        yield one


def test_the_node_of_a_name_that_nobody_uses_is_gone(flavour, tidy, name):
    """Names that are no longer used, such as one lock per order, do not fill the store."""
    locks = flavour.locks(tidy.url)

    locks.lock(name).acquire(timeout=20).release()

    with tidy.client() as client:
        eventually(lambda: not client.exists(f"/lockfast/{name}"), what="the node is gone")


def test_tokens_grow_though_the_node_was_deleted(flavour, tidy, name):
    """When a node is created again, the server numbers its claims from 0, but tokens still grow."""
    locks = flavour.locks(tidy.url)
    tokens = []
    with tidy.client() as client:
        for _ in range(3):
            lease = locks.lock(name).acquire(timeout=20)
            tokens.append(lease.token)
            lease.release()
            eventually(lambda: not client.exists(f"/lockfast/{name}"), what="the node is gone")

    assert tokens == sorted(set(tokens))


def test_a_node_deleted_while_we_come_is_made_again(flavour, tidy, name):
    """A client that relies on a node which it has seen before makes the deleted node again."""
    locks = flavour.locks(tidy.url)
    lock = locks.lock(name)
    tokens = []
    with tidy.client() as client:
        for number in range(100):
            lease = lock.acquire(timeout=20)
            tokens.append(lease.token)
            lease.release()
            if number % 10 == 0:
                eventually(lambda: not client.exists(f"/lockfast/{name}"), what="the node is gone")

    assert tokens == sorted(set(tokens))
