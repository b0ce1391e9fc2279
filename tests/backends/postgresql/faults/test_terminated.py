"""The server ends our sessions, as an operator or a failover does: while one holds, waits, asks."""

from __future__ import annotations

import pytest
from backends.postgresql.faults.conftest import LISTENING, OURS, is_listening
from eventually import eventually

from holdfast import BackendUnavailable, OutcomeUnknown

SOON = 2.0
"""Sooner than the next look, which would make up for a ring that was missed."""

TTL = 60.0
"""Longer than any test: what is gone was not ended by its time."""


def test_a_holder_goes_on_over_a_new_connection(server, door, diary):
    lock = door.elsewhere(ttl=6, on_event=diary)
    lease = lock.acquire()

    assert server.terminate(OURS) > 0
    before = diary.count("Renewed")
    eventually(lambda: diary.count("Renewed") >= before + 2)

    lease.check()
    lease.release()
    assert diary.count("Lost") == 0


def test_who_waits_keeps_its_place_and_hears_again(server, door):
    """All sessions end, the listening one too, and the release comes in the same moment."""
    lease = door.elsewhere().acquire()
    waiter = door.wait_behind()
    door.until([lease.token], 1)
    eventually(lambda: is_listening(server))

    server.terminate(OURS)
    try:
        lease.release()
    except OutcomeUnknown:
        lease.release()  # the first went to a session that was just ending

    assert waiter.result(20).token > lease.token


def test_a_listening_connection_that_is_lost_is_opened_again(server, door):
    """Only that one, and somebody releases before it is back: it asks when it is."""
    lease = door.elsewhere().acquire()
    waiter = door.wait_behind()
    door.until([lease.token], 1)
    eventually(lambda: is_listening(server))

    assert server.terminate(LISTENING) == 1
    lease.release()

    assert waiter.result(SOON).token > lease.token


def test_a_release_that_is_ended_can_be_repeated(flavour, server, door, blocked):
    """It stood before a row that somebody has locked; nobody can say what became of it."""
    lock = door.elsewhere(ttl=TTL)
    lease = lock.acquire()
    with server.connect() as other, other.transaction():
        other.execute("SELECT FROM holdfast_door FOR UPDATE")
        released = flavour.start(lease.release)
        eventually(lambda: blocked(other))
        assert server.terminate(f"{OURS} AND wait_event_type = 'Lock'") == 1

        with pytest.raises((OutcomeUnknown, BackendUnavailable)):
            released.result(20)
    lease.release()

    assert lease.lost.reason is None
    door.until([], 0)


def test_an_acquire_that_is_ended_is_asked_again(flavour, server, door, blocked):
    """The repeat is of the same claim: one hold, one token."""
    door.elsewhere().acquire().release()
    lock = door.elsewhere(ttl=TTL)
    with server.connect() as other, other.transaction():
        other.execute("SELECT FROM holdfast_door FOR UPDATE")
        asked = flavour.start(lock.acquire, timeout=30)
        eventually(lambda: blocked(other))
        server.terminate(f"{OURS} AND wait_event_type = 'Lock'")
    lease = asked.result(20)

    assert door.line() == ([lease.token], 0)


def test_the_victim_of_a_deadlock_tries_again(flavour, server, door, blocked):
    """Another locks two names the other way round; whoever is made to give way comes later."""
    locks, name = door.locks(request_timeout=20), door.name
    for one in ("a", "b"):
        locks.lock(f"{name} {one}").acquire().release()
    row = "SELECT FROM holdfast_door WHERE key = %s FOR UPDATE"
    first, second = (f"holdfast\0{name} {one}".encode() for one in "ab")
    with server.connect() as other:
        other.execute("SET deadlock_timeout = '60s'")  # the other is the one who finds it
        with other.transaction():
            other.execute(row, (second,))
            asked = flavour.start(locks.all(f"{name} a", f"{name} b").acquire, timeout=30)
            eventually(lambda: blocked(other))
            other.execute(row, (first,))

    leases = asked.result(20)

    assert [locks.inspect(lease.name).holders[0].token for lease in leases] == [
        lease.token for lease in leases
    ]
