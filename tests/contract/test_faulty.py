"""The backend that fails on command, wrapped around a store by its URL."""

from __future__ import annotations

import asyncio

import pytest

from lockfast import AsyncLocks, BackendUnavailable, ConfigurationError, LeaseLost, Locks
from lockfast.testing import AsyncFaultyBackend, FaultyBackend, ManualClock


def test_a_lost_reply_is_asked_for_again() -> None:
    """A user needs only one line and public names to lose a reply."""
    faulty = FaultyBackend.around("memory://")
    faulty.lose_reply("try_acquire")

    with Locks.from_backend(faulty) as locks, locks.lock("door") as lease:
        assert lease.is_trusted

    assert faulty.delivered["try_acquire"] == 2


def test_the_asyncio_flavour_has_the_same_door() -> None:
    async def main() -> None:
        faulty = AsyncFaultyBackend.around("memory://")
        faulty.go_away()
        async with AsyncLocks.from_backend(faulty) as locks:
            with pytest.raises(BackendUnavailable):
                await locks.lock("door").acquire(timeout=0)

            faulty.come_back()

            async with locks.lock("door") as lease:
                assert lease.is_trusted

    asyncio.run(main())


def test_it_is_around_the_store_that_the_url_names() -> None:
    """The faulty backend and a healthy client of the same URL share one store and one clock."""
    clock = ManualClock()
    faulty = FaultyBackend.around("memory://faulty", namespace="shop", clock=clock)
    ill = Locks.from_backend(faulty, clock=clock, ttl=10.0)
    well = Locks("memory://faulty", namespace="shop", clock=clock)
    lease = ill.lock("door", renew=False).acquire()

    assert well.lock("door").try_acquire() is None
    clock.advance(11)

    with well.lock("door", timeout=0) as successor:
        assert successor.token > lease.token
    ill.close()
    well.close()


def test_an_option_that_the_backend_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unknown option synchronous for memory"):
        FaultyBackend.around("memory://", synchronous="full")


def test_the_store_can_drop_a_lease_before_its_holder_learns_of_it() -> None:
    """After `expire_now` others get the name, and the holder learns of the loss at its release."""
    faulty = FaultyBackend.around("memory://dropped")

    with Locks.from_backend(faulty, ttl=600.0) as ill, Locks("memory://dropped") as well:
        lease = ill.lock("door").acquire()
        faulty.expire_now("door")

        assert lease.is_trusted
        well.lock("door").acquire(timeout=0)
        with pytest.raises(LeaseLost):
            lease.release()
