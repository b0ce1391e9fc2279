"""The shipped asyncio client and watchdog, on a loop whose time does not pass by itself."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict

import pytest

import lockfast
from lockfast import AsyncLocks, LeaseLost
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.testing import VirtualClock, VirtualTimeLoop, run_in_virtual_time

CONTENDERS = 50
SECONDS = 1000.0


def name_of(number: int) -> str:
    return "long" if number < 10 else f"short-{number % 4}"


def clients(number: int, **options: object) -> list[AsyncLocks]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    clock = VirtualClock(loop)
    store = MemoryStore(clock)
    return [
        AsyncLocks.from_backend(
            AsyncMemoryBackend(clock=clock, store=store), clock=clock, **options
        )  # type: ignore[arg-type]
        for _ in range(number)
    ]


def test_fifty_contenders_for_a_thousand_seconds() -> None:
    """There are never two inside, everybody gets a turn, and leases are renewed all the while."""
    events: Counter[str] = Counter()
    turns: Counter[int] = Counter()
    inside: Counter[str] = Counter()
    tokens: defaultdict[str, list[int]] = defaultdict(list)

    async def contend(locks: AsyncLocks, number: int, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        name = name_of(number)
        ttl, work = (1.5, 1.4) if name == "long" else (30.0, 0.3)
        while loop.time() < deadline:
            async with locks.lock(name, ttl=ttl) as lease:
                lease.check()
                assert inside[name] == 0
                inside[name] += 1
                tokens[name].append(lease.token)
                await asyncio.sleep(work)
                inside[name] -= 1
                turns[number] += 1

    async def main() -> None:
        loop = asyncio.get_running_loop()
        # Under `-X dev` the loop records a stack for every timer, which is not the client's cost.
        loop.set_debug(False)
        many = clients(CONTENDERS, on_event=lambda event: events.update([type(event).__name__]))
        await asyncio.gather(
            *(contend(one, n, loop.time() + SECONDS) for n, one in enumerate(many))
        )
        for one in many:
            await one.aclose()

    started = time.process_time()
    run_in_virtual_time(main())
    took = time.process_time() - started

    assert events["Acquired"] >= 10_000
    assert events["Renewed"] >= 1_000
    assert events["Acquired"] == events["Released"]
    assert events["Lost"] == 0
    assert all(each == sorted(set(each)) for each in tokens.values())
    for name in tokens:
        mine = [turns[n] for n in range(CONTENDERS) if name_of(n) == name]
        assert max(mine) - min(mine) <= 1, "first come, first served"
    # A thousand seconds of fifty contenders: the bound is on the client's own cost, and not a race.
    # The cost is CPU time, so other work on this machine does not count.
    assert took < 20.0, f"{events['Acquired']} acquisitions took {took:.1f} s"


def test_a_suspend_is_noticed_before_any_further_call_returns() -> None:
    """The boot clock jumps ahead by an hour; no timer has fired yet."""

    async def main() -> None:
        [locks] = clients(1)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        told: list[object] = []
        lease = await locks.lock("door", on_lost=told.append).acquire()
        loop.jump(3600.0)

        other = await locks.lock("other").acquire()

        assert lease.lost.reason == "expired"
        await asyncio.sleep(0.1)
        assert told == [lease]
        with pytest.raises(LeaseLost):
            lease.check()
        await other.release()
        await locks.aclose()

    run_in_virtual_time(main())


def test_a_sleeping_body_is_cancelled_after_a_suspend() -> None:
    """A body that slept through the suspend is cancelled before it runs on."""

    async def main() -> None:
        [locks] = clients(1)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        ran_on = []
        loop.call_later(5.0, loop.jump, 3600.0)

        with pytest.raises(lockfast.LeaseLost):  # noqa: PT012 - the block is the subject
            async with locks.lock("door"):
                await asyncio.sleep(4000)
                ran_on.append(True)

        assert not ran_on
        await locks.aclose()

    run_in_virtual_time(main())
