"""The server ends the sessions of holders and waiters, as an operator or a failover does."""

from __future__ import annotations

import pytest

from lockfast import BackendUnavailable, OutcomeUnknown
from lockfast_challenge.processes import eventually

TTL = 60.0
"""Longer than any test, so that a hold that is gone did not expire."""


class EndedSessions:
    """Ended sessions, for a SQL store; `end_sessions` ends all sessions of the clients at once."""

    def until_listening(self, server) -> None:
        """Wait until a client is listening for wakeups, if the store has them."""

    def test_a_holder_goes_on_over_a_new_connection(self, end_sessions, door, diary):
        lock = door.elsewhere(ttl=6, on_event=diary)
        lease = lock.acquire()

        end_sessions()
        before = diary.count("Renewed")
        eventually(lambda: diary.count("Renewed") >= before + 2)

        lease.check()
        lease.release()
        assert diary.count("Lost") == 0

    def test_a_waiter_keeps_its_place_and_is_woken_again(self, server, end_sessions, door):
        """All sessions end, also the listener's, and the release comes at the same moment."""
        lease = door.elsewhere().acquire()
        waiter = door.wait_behind()
        door.until([lease.token], 1)
        self.until_listening(server)

        end_sessions()
        try:
            lease.release()
        except OutcomeUnknown:
            lease.release()  # the first request went to a session that was just ending

        assert waiter.result(20).token > lease.token

    def test_a_release_that_is_ended_can_be_repeated(self, flavour, door, stranger):
        """The session ends while the release waits for a locked row, so the outcome is unknown."""
        lock = door.elsewhere(ttl=TTL)
        lease = lock.acquire()
        stranger.lock(door.name)
        released = flavour.start(lease.release)
        eventually(stranger.is_waited_for)
        stranger.end_waiters()

        with pytest.raises((OutcomeUnknown, BackendUnavailable)):
            released.result(20)
        stranger.let_go()
        lease.release()

        assert lease.lost.reason is None
        door.until([], 0)

    def test_an_acquire_that_is_ended_is_repeated(self, flavour, door, stranger):
        """The repeated request has the same claim, so there is one hold with one token."""
        door.elsewhere().acquire().release()
        lock = door.elsewhere(ttl=TTL)
        stranger.lock(door.name)
        asked = flavour.start(lock.acquire, timeout=30)
        eventually(stranger.is_waited_for)
        stranger.end_waiters()
        stranger.let_go()
        lease = asked.result(20)

        assert door.line() == ([lease.token], 0)

    def test_the_victim_of_a_deadlock_tries_again(self, flavour, door, stranger):
        """Another transaction locks two names in reverse order; the deadlock's victim retries."""
        locks, names = door.locks(request_timeout=20), [f"{door.name} {one}" for one in "ab"]
        for one in names:
            locks.lock(one).acquire().release()
        before = stranger.deadlocks()
        stranger.lock(names[1])
        asked = flavour.start(locks.all(*names).acquire, timeout=30)
        eventually(stranger.is_waited_for)
        stranger.lock(names[0])
        stranger.let_go()

        leases = asked.result(20)

        assert [locks.inspect(lease.name).holders[0].token for lease in leases] == [
            lease.token for lease in leases
        ]
        eventually(lambda: stranger.deadlocks() > before, what="there was one")
