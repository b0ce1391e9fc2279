"""However slow the store's answers are, trust counts from before the request."""

from __future__ import annotations

import asyncio

import pytest
from virtual import virtual, virtual_clock

from lockfast.backends.memory.store import MemoryStore
from lockfast.core.renewal import trusted_until
from lockfast.testing import run_in_virtual_time

TTL = 9.0
SLOW = 2.0
"""Seconds from each request to its answer; the store's clock may have started at its beginning."""


def test_a_grant_that_was_slow_is_trusted_from_its_request() -> None:
    """The store may have granted at once, so what the answer took is no longer left of the ttl."""

    async def main() -> None:
        locks, backend = virtual(ttl=TTL, request_timeout=2 * SLOW)
        backend.delay("try_acquire", SLOW)

        lease = await locks.lock("door", renew=False).acquire()

        assert lease.remaining == pytest.approx(trusted_until(sent_at=-SLOW, ttl=TTL))
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_grant_after_a_wait_is_trusted_from_its_own_request() -> None:
    """The request that was answered with the grant counts, and neither the first nor the answer."""

    async def main() -> None:
        store = MemoryStore(virtual_clock())
        locks, backend = virtual(store, ttl=TTL, request_timeout=2 * SLOW)
        others, _ = virtual(store, ttl=TTL)
        first = await others.lock("door").acquire()
        waiting = asyncio.ensure_future(locks.lock("door", renew=False).acquire())
        await asyncio.sleep(1.0)
        backend.delay("try_acquire", SLOW)
        await first.release()

        lease = await waiting

        assert lease.remaining == pytest.approx(trusted_until(sent_at=-SLOW, ttl=TTL))
        await locks.aclose()
        await others.aclose()

    run_in_virtual_time(main())


def test_a_renewal_that_was_slow_is_trusted_from_its_request() -> None:
    async def main() -> None:
        locks, backend = virtual(ttl=TTL, request_timeout=2 * SLOW)
        lease = await locks.lock("door").acquire()
        backend.delay("renew", SLOW)

        await asyncio.sleep(TTL / 3 + SLOW + 0.1)

        assert backend.delivered["renew"] == 1
        left = trusted_until(sent_at=-SLOW - 0.1, ttl=TTL)
        assert lease.remaining == pytest.approx(left, abs=0.05)
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_renewal_by_the_holder_that_was_slow_is_trusted_from_its_request() -> None:
    async def main() -> None:
        locks, backend = virtual(ttl=TTL, request_timeout=2 * SLOW)
        lease = await locks.lock("door", renew=False).acquire()
        backend.delay("renew", SLOW)

        await lease.renew()

        assert lease.remaining == pytest.approx(trusted_until(sent_at=-SLOW, ttl=TTL))
        await locks.aclose()

    run_in_virtual_time(main())
