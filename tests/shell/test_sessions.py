"""The client on a store where one session carries all of its leases, in virtual time."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from lockfast import AsyncLocks, BackendMisbehaved, ConfigurationError
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.events import Event, Reconnected, StoreError
from lockfast.model import Claim, Grant, Held, Proven, Renewal
from lockfast.testing import VirtualClock, VirtualTimeLoop, run_in_virtual_time

TTL = 9.0


class Sessioned(AsyncMemoryBackend):
    """A store that keeps leases as long as its session; a proof lags one keep-alive behind."""

    capabilities = dataclasses.replace(AsyncMemoryBackend.capabilities, ends_by="session")

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.now = options["clock"].now
        self.beats = [self.now()] * 2
        self.withdrawn: list[str] = []
        self.hurry: Callable[[], None] = lambda: None
        self.is_over = False
        self.says_from_when = True

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        answer = await super().try_acquire(dataclasses.replace(claim, ttl=1e6), deadline=deadline)
        if isinstance(answer, Held):
            return answer
        counted_from = self.beats[0] if self.says_from_when else None
        return Grant(claim, answer.token, claim.ttl, counted_from=counted_from)

    async def renew(
        self, grants: Sequence[Grant], *, deadline: float
    ) -> Sequence[Renewal | Proven]:
        del deadline
        if self.is_over:
            return [Renewal.LOST] * len(grants)
        self.beats = [self.beats[-1], self.now()]
        answer = Proven(self.beats[0]) if self.says_from_when else Renewal.RENEWED
        return [answer] * len(grants)

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        self.withdrawn.append(claim.name)
        await super().withdraw(claim, deadline=deadline, tombstone=tombstone)

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        assert ttl == TTL
        self.hurry = hurry


def opened(**options: Any) -> tuple[AsyncLocks, Sessioned, list[str]]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    clock = VirtualClock(loop)
    backend = Sessioned(clock=clock, store=MemoryStore(clock))
    told: list[str] = []

    def on_event(event: Event) -> None:
        if not isinstance(event, StoreError | Reconnected):
            told.append(type(event).__name__)

    locks = AsyncLocks.from_backend(backend, clock=clock, ttl=TTL, on_event=on_event, **options)
    return locks, backend, told


def test_a_session_that_is_well_is_never_at_risk() -> None:
    """The session's time counts from the last keep-alive but one, and that is enough."""

    async def main() -> None:
        locks, _, told = opened()
        async with locks.lock("door"):
            await asyncio.sleep(10 * TTL)

        await asyncio.sleep(0.1)  # hooks run beside the work
        assert set(told) == {"Acquired", "Renewed", "Released"}
        assert 25 <= told.count("Renewed") <= 31
        await locks.aclose()

    run_in_virtual_time(main())


def test_trust_counts_from_the_proof_and_not_from_the_request() -> None:
    """An acquire proves nothing about the session that carries it."""

    async def main() -> None:
        locks, backend, _ = opened()
        await asyncio.sleep(2 * TTL / 3)
        lease = await locks.lock("door", renew=False).acquire()

        assert lease.remaining < TTL / 3
        assert lease.ttl == TTL
        await lease.release()
        assert backend.withdrawn == []
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_grant_that_does_not_say_from_when_it_counts_is_refused() -> None:
    """If the ttl counted from the request, the client would trust a deposed leader."""

    async def main() -> None:
        locks, backend, _ = opened()
        backend.says_from_when = False

        with pytest.raises(BackendMisbehaved, match="counted_from"):
            await locks.lock("door").acquire()

        assert backend.withdrawn == ["door"]
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_renewal_that_does_not_say_from_when_it_counts_extends_nothing() -> None:
    async def main() -> None:
        locks, backend, told = opened()
        lease = await locks.lock("door").acquire()
        backend.says_from_when = False

        await asyncio.sleep(TTL)

        assert lease.lost.reason == "expired"
        assert told[-2:] == ["AtRisk", "Lost"]
        await locks.aclose()

    run_in_virtual_time(main())


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"renew": False}, "expired"), ({"max_hold": 2.0}, "max_hold")],
    ids=["expired", "max_hold"],
)
def test_a_lease_that_is_over_is_withdrawn(options: dict[str, Any], reason: str) -> None:
    """The session lives on, and would keep the name locked for ever."""

    async def main() -> None:
        locks, backend, _ = opened()
        lease = await locks.lock("door", **options).acquire()
        assert await lease.lost.wait(TTL)
        await asyncio.sleep(0.1)

        assert lease.lost.reason == reason
        assert backend.withdrawn == ["door"]
        assert not (await locks.inspect("door")).holders
        await locks.aclose()

    run_in_virtual_time(main())


def test_an_abandoned_lease_is_withdrawn() -> None:
    async def main() -> None:
        locks, backend, _ = opened()
        await locks.lock("door").acquire()
        gc.collect()

        with pytest.warns(ResourceWarning, match="abandoned"):
            await asyncio.sleep(2 * TTL)

        assert backend.withdrawn == ["door"]
        await locks.aclose()

    run_in_virtual_time(main())


def test_the_end_of_the_session_is_told_when_the_backend_knows_it() -> None:
    """The loss is reported at once, and not when the next renewal is due."""

    async def main() -> None:
        locks, backend, _ = opened()
        lease = await locks.lock("door").acquire()
        await asyncio.sleep(0.5)
        backend.is_over = True

        backend.hurry()
        await asyncio.sleep(0.01)

        assert lease.lost.reason == "session_ended"
        await locks.aclose()

    run_in_virtual_time(main())


def test_another_ttl_is_refused() -> None:
    async def main() -> None:
        locks, _, _ = opened()
        with pytest.raises(ConfigurationError, match=r"ttl=5.*client"):
            locks.lock("door", ttl=5.0)
        with pytest.raises(ConfigurationError, match=r"ttl=5.*client"):
            locks.rwlock("door", ttl=5.0).read()
        assert locks.lock("door", ttl=TTL).options.ttl == TTL
        await locks.aclose()

    run_in_virtual_time(main())
