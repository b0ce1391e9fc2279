"""A claim's node that is deleted and created again at the same path: its czxid differs."""

from __future__ import annotations

import pytest

from lockfast import LeaseLost
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.zookeeper import ZooKeeperServer

TTL = 60.0
"""A ttl longer than any test, in seconds, so that no loss is due to expiry."""

PATIENCE = 20.0


def _make_again(server: ZooKeeperServer, name: str) -> None:
    with server.client() as client:
        [child] = client.get_children(f"/lockfast/{name}")
        path = f"/lockfast/{name}/{child}"
        data, _ = client.get(path)
        client.delete(path)
        client.create(path, data)


@pytest.fixture
def lease(flavour, server, name):
    locks = flavour.locks(server.url, ttl=TTL, request_timeout=PATIENCE)
    return locks.lock(name).acquire(timeout=PATIENCE)


def _renews(lease: object) -> bool:
    try:
        lease.renew()  # type: ignore[attr-defined]
    except LeaseLost:
        return False
    return True


def test_a_holder_whose_node_was_made_again_has_lost(lease, server, name):
    """A new node at the old path proves nothing: others may have held the lock meanwhile."""
    lease.renew()

    _make_again(server, name)

    eventually(lambda: not _renews(lease), what="it is told at a renewal")
    assert lease.lost.reason == "broken"


def test_the_release_of_a_lease_whose_node_was_made_again_says_so_and_leaves_nothing(
    lease, server, name
):
    _make_again(server, name)

    with pytest.raises(LeaseLost):
        lease.release()
    with server.client() as client:
        assert client.get_children(f"/lockfast/{name}") == []


def test_a_min_hold_does_not_make_the_release_of_such_a_lease_clean(flavour, server, name):
    locks = flavour.locks(server.url, ttl=TTL, request_timeout=PATIENCE)
    lease = locks.lock(name, min_hold=TTL).acquire(timeout=PATIENCE)

    _make_again(server, name)

    with pytest.raises(LeaseLost):
        lease.release()


def test_one_who_waits_and_whose_node_was_made_again_takes_a_place_of_its_own(
    flavour, server, lease, name
):
    """The waiter's grant has the token of its new node, which is larger than earlier tokens."""
    locks = flavour.locks(server.url, ttl=TTL, request_timeout=PATIENCE)
    waiting = flavour.start(locks.lock(name).acquire, timeout=TTL)
    eventually(lambda: locks.inspect(name).line, what="it waits")
    with server.client() as client:
        # Replace the node in one transaction, so that the client never sees the path without a
        # node.
        path = max(client.get_children(f"/lockfast/{name}"), key=lambda one: one[-10:])
        path = f"/lockfast/{name}/{path}"
        data, stat = client.get(path)
        change = client.transaction()
        change.delete(path)
        change.create(path, data)
        change.commit()

    lease.release()
    eventually(lambda: len(locks.inspect(name).line) == 1, what="it stands in line again")
    with server.client() as client:
        client.delete(path)

    assert waiting.result(TTL).token > stat.czxid
