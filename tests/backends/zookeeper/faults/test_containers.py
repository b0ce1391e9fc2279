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
    """One lock per order does not fill the store."""
    locks = flavour.locks(tidy.url)

    locks.lock(name).acquire(timeout=20).release()

    with tidy.client() as client:
        eventually(lambda: not client.exists(f"/lockfast/{name}"), what="the node is gone")


def test_tokens_grow_though_the_node_was_deleted(flavour, tidy, name):
    """The server's own numbering of the claims restarts at 0; the tokens do not."""
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
    """A client may still rely on a node that it has seen before."""
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
