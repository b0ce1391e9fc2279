"""The server itself: shut down, killed, frozen; and back."""

from __future__ import annotations

import pytest
from backends.postgresql.faults.conftest import is_listening
from server_faults import SLACK, ServerFaults

from lockfast import LockError
from lockfast.challenge.eventually import eventually


class TestServerFaults(ServerFaults):
    """What they do to a SQL store."""


def test_closing_waits_once_for_a_frozen_server(flavour, server, door):
    """For the withdrawal of who waits, for what is held, and for what hears: together once."""
    locks, lock = door.locks(), door.elsewhere()
    held = lock.acquire()
    mine = locks.lock(f"{door.name} mine").acquire()
    waiter = flavour.start(locks.lock(door.name).acquire, timeout=30)
    door.until([held.token], 1)
    eventually(lambda: is_listening(server))
    flavour.give_up_after(1.5)

    server.pause()
    asked_at = flavour.clock.now()
    try:
        (locks.close if flavour.name == "sync" else locks.aclose)()
        waited = flavour.clock.now() - asked_at
    finally:
        server.resume()

    assert waited < 1.5 + SLACK
    assert mine.lost.reason == "closed"
    with pytest.raises(LockError):
        waiter.result(5)
