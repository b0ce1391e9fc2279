"""A grant from another client's release is trusted only for its window until it is renewed."""

from __future__ import annotations

import asyncio

import pytest
from virtual import virtual_clock

from lockfast import AsyncLocks
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.core.renewal import trusted_until
from lockfast.model import Claim, Grant, Held, Window
from lockfast.testing import AsyncFaultyBackend, run_in_virtual_time

WINDOW = 2.5
AGE = 0.5
"""Seconds from the start of the window to the return of the acquire."""
TTL = 30.0


class Pushing(AsyncMemoryBackend):
    """Grants for the rest of a window and not for a ttl, as a store does when it was not asked."""

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        answer = await super().try_acquire(claim, deadline=deadline)
        if isinstance(answer, Held):
            return answer
        return Grant(claim, answer.token, answer.ttl, Window(virtual_clock().now() - AGE, WINDOW))


def pushing(*, ttl: float) -> tuple[AsyncLocks, AsyncFaultyBackend]:
    clock = virtual_clock()
    backend = AsyncFaultyBackend(Pushing(clock=clock, store=MemoryStore(clock)), clock=clock)
    return AsyncLocks.from_backend(backend, clock=clock, ttl=ttl), backend


@pytest.mark.parametrize("renew", [True, False], ids=["renewed", "not renewed"])
def test_without_an_answered_renewal_it_is_lost_when_the_window_ends(*, renew: bool) -> None:
    """When the window ends, the store admits the next claim, however long the ttl is."""

    async def main() -> None:
        locks, backend = pushing(ttl=TTL)
        backend.lose_request("renew", times=1000)
        lease = await locks.lock("door", renew=renew).acquire()
        ends_in = trusted_until(sent_at=-AGE, ttl=WINDOW)

        assert lease.remaining == pytest.approx(ends_in)
        await asyncio.sleep(ends_in - 0.01)
        assert lease.is_trusted
        await asyncio.sleep(0.02)
        assert not lease.is_trusted
        assert lease.lost.reason == "expired"

        await locks.aclose()

    run_in_virtual_time(main())


def test_a_ttl_that_is_shorter_than_the_window_ends_it_first() -> None:
    async def main() -> None:
        locks, backend = pushing(ttl=1.0)
        backend.lose_request("renew", times=1000)

        lease = await locks.lock("door").acquire()

        assert lease.remaining == pytest.approx(trusted_until(sent_at=-AGE, ttl=1.0))
        await locks.aclose()

    run_in_virtual_time(main())


@pytest.mark.parametrize("renew", [True, False], ids=["renewed", "not renewed"])
def test_it_is_renewed_to_its_ttl_within_the_window(*, renew: bool) -> None:
    """For the first renewal, a third of the ttl would be too late."""

    async def main() -> None:
        locks, backend = pushing(ttl=TTL)
        lease = await locks.lock("door", renew=renew).acquire()

        await asyncio.sleep(WINDOW - AGE)

        assert backend.delivered["renew"] == 1
        assert lease.remaining > WINDOW
        await lease.release()
        await locks.aclose()

    run_in_virtual_time(main())
