"""A withdrawal or release that an ACL forbids for a moment is done when the ACL allows it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from both_flavours import number_waiting
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from lockfast import ConfigurationError, NotAcquired
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.zookeeper import ZooKeeperServer

TTL = 60.0
"""A ttl longer than any test, in seconds, so that no lock ends by expiry."""

PATIENCE = 20.0


@contextmanager
def _nobody_deletes(server: ZooKeeperServer, name: str) -> Iterator[None]:
    """Allow only an operator to delete the nodes below a name, and undo that afterwards."""
    with server.client() as client:
        client.add_auth("digest", "operator:sesame")
        readable = make_acl("world", "anyone", read=True)
        client.set_acls(f"/lockfast/{name}", [readable, make_acl("auth", "", all=True)])
        yield
        client.set_acls(f"/lockfast/{name}", OPEN_ACL_UNSAFE)


@pytest.fixture
def locks(flavour, server):
    return flavour.locks(server.url, ttl=TTL, request_timeout=PATIENCE)


def test_a_claim_whose_withdrawal_is_refused_leaves_the_line_when_it_is_allowed(
    flavour, server, locks, door
):
    """A claim left in line would be admitted with no one to use it, and keep all others out."""
    held = door.elsewhere(ttl=TTL, request_timeout=PATIENCE).acquire(timeout=PATIENCE)
    given_up = threading.Event()
    waiting = flavour.start(locks.lock(door.name).acquire, timeout=TTL, cancel=given_up)
    eventually(lambda: number_waiting(locks), what="it waits")

    with _nobody_deletes(server, door.name):
        given_up.set()
        with pytest.raises((NotAcquired, ConfigurationError)):
            waiting.result(TTL)
    held.release()

    assert door.elsewhere(ttl=TTL, request_timeout=PATIENCE).acquire(timeout=PATIENCE).is_trusted


def test_a_release_that_is_refused_is_done_when_it_is_allowed(server, locks, door):
    lease = locks.lock(door.name).acquire(timeout=PATIENCE)

    with _nobody_deletes(server, door.name), pytest.raises(ConfigurationError):
        lease.release()

    assert door.elsewhere(ttl=TTL, request_timeout=PATIENCE).acquire(timeout=PATIENCE).is_trusted


def test_a_min_hold_that_may_not_end_keeps_no_other_from_ending(flavour, server, locks, door):
    """The hold of each name is removed separately, so a refused removal delays no other name."""
    other = f"{door.name}-other"
    for name in (door.name, other):
        locks.lock(name, min_hold=1.0).acquire(timeout=PATIENCE).release()

    with _nobody_deletes(server, door.name):
        witness = flavour.locks(server.url, ttl=TTL, request_timeout=PATIENCE)
        assert witness.lock(other).acquire(timeout=PATIENCE).is_trusted

    assert door.elsewhere(ttl=TTL, request_timeout=PATIENCE).acquire(timeout=PATIENCE).is_trusted
