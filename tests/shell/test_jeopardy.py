"""At risk, safe again, lost: told in that order, and a lease that recovers is kept."""

from __future__ import annotations

import asyncio
import threading

from virtual import virtual

from holdfast import AtRisk, Event, Locks, SafeAgain
from holdfast.challenge.eventually import eventually
from holdfast.testing import FaultyBackend, run_in_virtual_time

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

    kinds = [type(one).__name__ for one in told]
    assert [one for one in kinds if one not in ("Acquired", "Renewed")] == [
        *("AtRisk", "SafeAgain"),
        *("AtRisk", "Lost"),
    ]
    assert kinds[kinds.index("SafeAgain") + 1] == "Renewed"
    [safe] = [one for one in told if isinstance(one, SafeAgain)]
    assert 0.9 * TTL < safe.remaining < TTL


def test_one_that_is_renewed_by_its_holder_is_safe_again() -> None:
    """It is not renewed by itself, and in the last third of its ttl it is at risk."""
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
    """The request was sent long ago, and its ttl counts from then."""
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
        assert told == ["Acquired", "AtRisk", "Renewed"]
        backend.delay("renew", 0.0)
        await lease.renew()
        await lease.release()
        await locks.aclose()

    run_in_virtual_time(main())

    assert told[2:] == ["Renewed", "SafeAgain", "Renewed", "Released"]


def test_what_was_renewed_while_a_hook_was_slow_is_not_called_at_risk_afterwards() -> None:
    """The last thing that is told has to be true."""
    told: list[Event] = []
    is_told, may_go_on = threading.Event(), threading.Event()

    def on_event(event: Event) -> None:
        told.append(event)
        if isinstance(event, AtRisk) and not is_told.is_set():
            is_told.set()
            may_go_on.wait(60)

    backend = FaultyBackend.around("memory://")
    with Locks.from_backend(backend, ttl=60.0, on_event=on_event) as locks:
        leases = {name: locks.lock(name).acquire() for name in ("one", "other")}
        backend.lose_request("renew")
        locks._client.watchdog.hurry()
        assert is_told.wait(60)
        [first] = [one.name for one in told if isinstance(one, AtRisk)]
        [late] = [lease for name, lease in leases.items() if name != first]

        late.renew()
        may_go_on.set()

        eventually(lambda: any(isinstance(one, SafeAgain) for one in told), what="it is safe")
        kinds = [type(one).__name__ for one in told if one.name == late.name]
        assert set(kinds) == {"Acquired", "Renewed"}
