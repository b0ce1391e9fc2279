"""The server itself is shut down, killed or frozen, and comes back."""

from __future__ import annotations

import pytest
from backends.postgresql.faults.conftest import is_listening
from server_faults import SLACK, ServerFaults

from lockfast import LockError
from lockfast_challenge.processes import eventually


class TestServerFaults(ServerFaults):
    """The tests for every SQL store."""


def test_closing_waits_once_for_a_frozen_server(flavour, server, door):
    """Withdrawing the waiter, releasing the hold and closing the listener share one wait."""
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
