"""Very many leases, names and waiters: many requests, each with a full request timeout."""

from __future__ import annotations

from backends.redis.scripted import claim

from lockfast import Locks
from lockfast.backends.redis._sync.backend import RENEW_BATCH, RedisBackend
from lockfast.testing import ManualClock
from lockfast_challenge.processes import eventually

TIMEOUT = 2.0


def test_a_slow_server_has_the_whole_time_for_each_page(url):
    """Each page of a long inspection or survey has the full request timeout."""
    clock = ManualClock(1000.0)
    backend = RedisBackend(url=url, location="here", clock=clock)
    for number in range(120):
        one = claim(number, name=f"door {number % 2}", client="crowd")
        backend.try_acquire(one, deadline=clock.now() + TIMEOUT)
    call = backend._call

    def slowly(verb: str, request: bytes, *, deadline: float) -> object:
        reply = call(verb, request, deadline=deadline)
        clock.advance(TIMEOUT * 0.75)
        return reply

    backend._call = slowly  # type: ignore[method-assign]
    alone = backend.inspect("door 0", deadline=clock.now() + TIMEOUT)
    found = list(backend.survey("", deadline=clock.now() + TIMEOUT))

    assert len(alone.line) == 59
    assert [len(one.line) for one in found] == [59, 59]
    backend.close()


def test_very_many_leases_are_renewed_in_turns(url):
    """Each batch of renewals has its own deadline, and its replies are used at once."""
    count = 3 * RENEW_BATCH
    answered: list[object] = []

    with Locks(url, ttl=60) as locks:
        leases = [locks.lock(f"door {number}").acquire() for number in range(count)]
        backend, watchdog = locks._client.backend, locks._client.watchdog
        turns: list[tuple[int, float, int]] = []
        renew, settle = backend.renew, watchdog.settle

        def settled(hold, answer, *, sent_at):
            settle(hold, answer, sent_at=sent_at)
            answered.append(hold)

        def watched(grants, *, deadline):
            turns.append((len(grants), deadline, len(answered)))
            return renew(grants, deadline=deadline)

        backend.renew, watchdog.settle = watched, settled
        watchdog.hurry()
        eventually(lambda: len(answered) >= count)

        assert [size for size, _, _ in turns] == [RENEW_BATCH] * 3
        assert [before for _, _, before in turns] == [0, RENEW_BATCH, 2 * RENEW_BATCH]
        assert len({deadline for _, deadline, _ in turns}) == 3
        assert all(lease.is_trusted for lease in leases)
