"""Many want one name: they are woken one after the other, and nobody is left out."""

from __future__ import annotations

from itertools import count

import pytest
from servers.redlock import RedlockNodes, shared_nodes

TURNS = 6
CLIENTS = 6


@pytest.fixture
def opened(flavour, namespace):
    shared_nodes().found([namespace])

    def open_one(nodes: RedlockNodes | None = None, **options: float):
        url = (nodes or shared_nodes()).url
        return flavour.locks(
            url, namespace=namespace, node_timeout=5.0, request_timeout=20.0, **options
        )

    return open_one


def test_a_release_wakes_who_waits(opened, flavour, name, eventually):
    """Long before it would have asked by itself, at the end of the lease."""
    holder = opened().lock(name).acquire()
    waiting = opened()
    waiter = flavour.start(waiting.lock(name).acquire, timeout=25)
    inbox = getattr(waiting, "_inner", waiting)._client.backend._inbox
    eventually(lambda: len([one for one in inbox._ears.values() if one.subscription]) == 5)
    asked = shared_nodes()[0].calls()

    holder.release()

    assert waiter.result(20).token > holder.token
    # The release, its own question and what was asked meanwhile now and then.
    assert shared_nodes()[0].calls() - asked < 15


def test_everybody_has_a_turn(opened, flavour, name):
    """And the tokens of all turns grow in their order."""
    tokens, number = [], count()

    def take_turns(lock) -> int:
        for _ in range(TURNS):
            lease = lock.acquire(timeout=40)
            next(number)
            tokens.append(lease.token)
            lease.release()
        return TURNS

    workers = [flavour.start(take_turns, opened().lock(name)) for _ in range(CLIENTS)]

    assert sum(one.result(50) for one in workers) == TURNS * CLIENTS
    assert tokens == sorted(set(tokens))


def test_who_waits_is_woken_though_the_first_node_is_dead(flavour, namespace, name, eventually):
    with RedlockNodes(3) as nodes:
        nodes.found([namespace])
        options = {"namespace": namespace, "node_timeout": 5.0, "request_timeout": 20.0}
        holder = flavour.locks(nodes.url, **options).lock(name).acquire()
        waiter = flavour.start(flavour.locks(nodes.url, **options).lock(name).acquire, timeout=25)
        nodes[0].kill()

        holder.release()

        assert waiter.result(25).token > holder.token
