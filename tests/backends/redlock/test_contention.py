"""Many clients want one name: they are woken one after the other, and nobody is left out."""

from __future__ import annotations

import math

import pytest
from servers.redlock import shared_nodes

from lockfast.backends.redlock._async import acquire as async_claiming
from lockfast.backends.redlock._sync import acquire as sync_claiming
from lockfast.backends.redlock.requests import NODE_KEYS, source
from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.redlock import RedlockNodes, url_of

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


@pytest.fixture
def nobody_looks(monkeypatch):
    """Keep claims from asking again without a wakeup, which would hide a missing wakeup."""
    for one in (sync_claiming, async_claiming):
        monkeypatch.setattr(one, "WAITER_POLL_SECONDS", 3600.0)


def until_heard(locks, eventually):
    """Wait until a client listens to every node."""
    inbox = getattr(locks, "_inner", locks)._client.backend._inbox
    eventually(lambda: all(one.subscription for one in inbox.receivers))


@pytest.mark.usefixtures("nobody_looks")
def test_a_release_wakes_who_waits(opened, flavour, name, eventually):
    holder = opened().lock(name, ttl=60).acquire()
    waiting = opened()
    waiter = flavour.start(waiting.lock(name).acquire, timeout=50)
    until_heard(waiting, eventually)

    holder.release()

    assert waiter.result(50).token > holder.token


def test_all_come_through_and_their_tokens_grow(opened, flavour, name):
    tokens = []

    def take_turns(lock) -> int:
        for _ in range(TURNS):
            lease = lock.acquire(timeout=40)
            tokens.append(lease.token)
            lease.release()
        return TURNS

    workers = [flavour.start(take_turns, opened().lock(name)) for _ in range(CLIENTS)]

    assert sum(one.result(50) for one in workers) == TURNS * CLIENTS
    assert tokens == sorted(set(tokens))


@pytest.mark.usefixtures("nobody_looks")
def test_who_waits_is_woken_though_the_first_node_is_dead(flavour, namespace, name, eventually):
    with RedlockNodes(3) as nodes:
        nodes.found([namespace])
        options = {"namespace": namespace, "node_timeout": 5.0, "request_timeout": 20.0}
        holder = flavour.locks(nodes.url, **options).lock(name, ttl=60).acquire()
        waiter = flavour.start(flavour.locks(nodes.url, **options).lock(name).acquire, timeout=50)
        eventually(lambda: is_waited_for(nodes[1], namespace, name))
        nodes[0].kill()

        holder.release()

        assert waiter.result(50).token > holder.token


@pytest.mark.usefixtures("nobody_looks")
def test_who_waits_is_woken_by_any_node(flavour, namespace, name, outliving, eventually):
    """A waiter is woken by the other nodes if the first two never confirm its subscription."""
    nodes = shared_nodes()
    nodes.found([namespace])
    ways = [outliving.enter_context(Proxy(one.port)) for one in nodes[:2]]
    for one in ways:
        one.lose_reply_to(b"SUBSCRIBE", times=math.inf)
    options = {"namespace": namespace, "node_timeout": 5.0, "request_timeout": 20.0}
    holder = flavour.locks(nodes.url, **options).lock(name, ttl=60).acquire()
    waiting = flavour.locks(url_of(*ways, *nodes[2:]), **options)
    waiter = flavour.start(waiting.lock(name).acquire, timeout=50)
    eventually(lambda: is_waited_for(nodes[4], namespace, name))

    holder.release()

    assert waiter.result(50).token > holder.token


def test_who_waits_is_woken_though_two_nodes_keep_what_has_ended(
    opened, flavour, namespace, name, eventually
):
    """A waiter is woken even if two nodes, including the one asked first, keep an old hold."""
    for one in shared_nodes()[:2]:
        keep(one, namespace, name)
    holder = opened().lock(name).acquire()
    waiting = opened()
    waiter = flavour.start(waiting.lock(name).acquire, timeout=25)
    eventually(lambda: is_waited_for(shared_nodes()[2], namespace, name))

    holder.release()

    assert waiter.result(25).token > holder.token


def keep(node, namespace, name):
    """Make a node hold the name for a minute, for a client that is gone."""
    with node.client() as client:
        birth = client.hget(f"{namespace}:redlock:node", "birth").decode()
        keys = [*keys_of(namespace, name), f"{namespace}:redlock:node"]
        claim = ("somebody", 1, 60_000_000, 0, 0, "", 0, 0, "owner")
        reply = client.eval(source("acquire").replace("@birth@", birth), len(keys), *keys, *claim)
    assert reply[1:3] == [1, 1]


def keys_of(namespace, name):
    return [f"{namespace}:{{{name}}}:{one}" for one in NODE_KEYS]


def is_waited_for(node, namespace, name):
    """Return whether a waiter is registered at the node."""
    with node.client() as client:
        return client.zcard(keys_of(namespace, name)[NODE_KEYS.index("waiting")])
