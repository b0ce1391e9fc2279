"""Very many leases, names and waiters: many requests, each with the time that one is given."""

from __future__ import annotations

from backends.redis.scripted import claim

from lockfast import Locks
from lockfast.backends.redis._sync.backend import TOGETHER, RedisBackend
from lockfast.challenge.eventually import eventually
from lockfast.testing import ManualClock

TIMEOUT = 2.0


def test_a_slow_server_has_the_whole_time_for_each_page(url):
    """An inspection of many, and a survey of many names, do not fail for being long."""
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
    """Each turn has a time of its own, and the answers to the first do not wait for the last."""
    count = 3 * TOGETHER
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

        assert [size for size, _, _ in turns] == [TOGETHER] * 3
        assert [before for _, _, before in turns] == [0, TOGETHER, 2 * TOGETHER]
        assert len({deadline for _, deadline, _ in turns}) == 3
        assert all(lease.is_trusted for lease in leases)
