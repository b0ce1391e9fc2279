"""The session ends under its client's feet: told at once, and nothing is believed any more."""

from __future__ import annotations

import pytest

from holdfast import LeaseLost
from holdfast.challenge.eventually import eventually

TTL = 60.0
"""Longer than any test: what is told was not told by the clock."""


def test_a_holder_whose_session_is_ended_is_told_long_before_its_ttl(store, rivals, diary):
    """All its leases are lost together; the next acquire has a session of its own."""
    locks = rivals.locks(ttl=TTL, on_event=diary)
    leases = [locks.lock(f"{rivals.name} {number}").acquire() for number in range(3)]

    assert store.end_sessions() > 0

    for lease in leases:
        assert lease.lost.wait(20)
        assert lease.lost.reason == "session_ended"
        with pytest.raises(LeaseLost):
            lease.release()
    again = locks.lock(f"{rivals.name} 0").acquire(timeout=20)
    again.check()
    again.release()


def test_who_waits_goes_on_by_another_session(store, rivals):
    lease = rivals.locks(ttl=TTL).lock(rivals.name).acquire()
    waiter = rivals.waiting(ttl=TTL)
    first = rivals.waiting_session

    store.end_session(first.number)

    eventually(lambda: not first.is_usable(rivals.flavour.clock.now()), what="it was noticed")
    lease.check()
    assert not waiter.done()
    lease.release()
    waiter.result(20).check()
    assert not rivals.is_free()


def test_a_release_after_the_session_was_ended_tells_of_the_loss(store, rivals):
    """Somebody else may have had the name meanwhile."""
    lease = rivals.locks(ttl=TTL).lock(rivals.name).acquire()

    store.end_sessions()

    with pytest.raises(LeaseLost):
        lease.release()
    assert rivals.is_free()


def test_a_session_that_is_not_needed_is_given_back(store, rivals, monkeypatch):
    """An idle client costs the server nothing, and is served again when it comes back."""
    flavour = "_sync" if rivals.flavour.name == "sync" else "_async"
    monkeypatch.setattr(f"holdfast.backends.sql.{flavour}.advisory_life.IDLE", 0.2)
    before = store.sessions()
    locks = rivals.locks()
    locks.lock(rivals.name).acquire().release()

    eventually(lambda: store.sessions() == before, what="it is given back")

    locks.lock(rivals.name).acquire().release()


def test_a_holder_that_is_idle_keeps_its_session(store, rivals, diary):
    """By heartbeats: the server would end it after a ttl."""
    lease = rivals.locks(ttl=1.5, on_event=diary).lock(rivals.name).acquire()

    diary.until_renewed(6)

    lease.check()
    assert not rivals.is_free()
    lease.release()
    assert rivals.is_free()
    assert diary.count("Lost") == 0


def test_many_who_wait_in_one_client_are_served_one_after_the_other(rivals):
    """The server would let them all in: to it they are one session."""
    locks, inside, most = rivals.locks(ttl=TTL), [], []
    holder = rivals.locks(ttl=TTL).lock(rivals.name).acquire()

    def pass_through() -> None:
        lease = locks.lock(rivals.name).acquire(timeout=40)
        inside.append(1)
        most.append(len(inside))
        inside.pop()
        lease.release()

    running = [rivals.flavour.start(pass_through) for _ in range(20)]
    backend = getattr(locks, "_inner", locks)._client.backend
    eventually(lambda: len(backend._waiting) == 20, what="all wait")
    holder.release()
    for one in running:
        one.result(40)

    assert most == [1] * 20
    assert rivals.is_free()
