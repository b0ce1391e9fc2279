"""At risk, safe again, lost: reported in that order, and a lease that recovers is kept."""

from __future__ import annotations

import asyncio
import threading

from virtual import virtual

from lockfast import AtRisk, Event, Locks, Reconnected, SafeAgain, StoreError
from lockfast.testing import FaultyBackend, run_in_virtual_time

TTL = 30.0


def test_a_lease_that_recovers_is_kept_and_one_that_does_not_is_lost() -> None:
    told: list[Event] = []

    async def main() -> None:
        locks, backend = virtual(ttl=TTL, on_event=told.append)
        lease = await locks.lock("door").acquire()
        backend.go_away()
        await asyncio.sleep(0.6 * TTL)
        assert lease.is_at_risk
        backend.come_back()
        await asyncio.sleep(TTL)
        assert not lease.is_at_risk
        assert not lease.lost.is_set()
        backend.go_away()
        await asyncio.sleep(2 * TTL)
        assert lease.lost.reason == "expired"
        backend.come_back()
        await locks.aclose()

    run_in_virtual_time(main())

    of_leases = [one for one in told if not isinstance(one, StoreError | Reconnected)]
    kinds = [type(one).__name__ for one in of_leases]
    assert [one for one in kinds if one not in ("Acquired", "Renewed")] == [
        *("AtRisk", "SafeAgain"),
        *("AtRisk", "Lost"),
    ]
    assert kinds[kinds.index("SafeAgain") + 1] == "Renewed"
    [safe] = [one for one in told if isinstance(one, SafeAgain)]
    assert 0.9 * TTL < safe.remaining < TTL


def test_one_that_is_renewed_by_its_holder_is_safe_again() -> None:
    """A lease that is not renewed automatically is at risk in the last third of its ttl."""
    told: list[str] = []

    async def main() -> None:
        locks, _ = virtual(ttl=TTL, on_event=lambda event: told.append(type(event).__name__))
        async with locks.lock("door", renew=False) as lease:
            await asyncio.sleep(0.8 * TTL)
            await lease.renew()
        await locks.aclose()

    run_in_virtual_time(main())

    assert told == ["Acquired", "AtRisk", "SafeAgain", "Renewed", "Released"]


def test_an_answer_that_leaves_little_time_makes_nobody_safe() -> None:
    """The ttl counts from the sending of the request, which was long ago."""
    told: list[str] = []

    async def main() -> None:
        locks, backend = virtual(
            ttl=TTL,
            request_timeout=TTL,
            on_event=lambda event: told.append(type(event).__name__),
        )
        lease = await locks.lock("door", renew=False).acquire()
        backend.delay("renew", 0.9 * TTL)
        await asyncio.sleep(0.05 * TTL)
        await lease.renew()
        assert lease.is_at_risk
        backend.delay("renew", 0.0)
        await lease.renew()
        await lease.release()
        await locks.aclose()

    run_in_virtual_time(main())

    assert told == ["Acquired", "AtRisk", "Renewed", "SafeAgain", "Renewed", "Released"]


def test_what_was_renewed_while_a_hook_was_slow_is_told_as_it_was() -> None:
    """Events are reported in order, so the last event is true; no renewal waits for the hook."""
    told: list[Event] = []
    is_told, may_go_on = threading.Event(), threading.Event()

    def on_event(event: Event) -> None:
        told.append(event)
        if isinstance(event, AtRisk) and not is_told.is_set():
            is_told.set()
            may_go_on.wait(60)

    backend = FaultyBackend.around("memory://")
    with Locks.from_backend(backend, ttl=60.0, on_event=on_event) as locks:
        leases = [locks.lock(name).acquire() for name in ("one", "other")]
        backend.lose_request("renew")
        locks._client.watchdog.hurry()
        assert is_told.wait(60)

        for lease in leases:
            lease.renew()

        assert not any(lease.is_at_risk for lease in leases)
        may_go_on.set()

    for lease in leases:
        mine = [type(one).__name__ for one in told if one.name == lease.name]
        assert mine[:3] == ["Acquired", "AtRisk", "SafeAgain"]
        assert mine[-1] == "Lost"  # the lease was never released, and the client is closed
