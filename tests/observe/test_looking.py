"""Sampling a store at intervals: what the samples can show about leases, and what they cannot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from virtual import virtual, virtual_clock

from lockfast import AsyncLocks
from lockfast.backends.memory.store import MemoryStore
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.model import Holder, Inspection, Owner, Waiter
from lockfast.observe.advice import AdviceKind, advice_on
from lockfast.observe.figures import Figures
from lockfast.observe.sampling import StoreSampling
from lockfast.testing import run_in_virtual_time

EVERY = 0.2


def watched(work: Callable[[Callable[[], AsyncLocks]], Awaitable[None]], *, seconds: float):
    """Return the figures of a sampling client, while other clients of the store are at work."""

    async def main() -> StoreSampling:
        clock = virtual_clock()
        store = MemoryStore(clock)
        opened = [virtual(store)[0]]

        def another() -> AsyncLocks:
            opened.append(virtual(store)[0])
            return opened[-1]

        working = asyncio.ensure_future(work(another))
        looking, began = StoreSampling(), clock.now()
        while clock.now() < began + seconds:
            await asyncio.sleep(EVERY)
            looking.look([one async for one in opened[0].survey()], at=clock.now())
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        for one in opened:
            await one.aclose()
        return looking

    return run_in_virtual_time(main()).figures()


async def for_ever(locks: AsyncLocks, name: str, hold: float, pause: float, **options: Any) -> None:
    number = 0
    while True:
        number += 1
        lease = await locks.lock(name.format(number), **options).acquire()
        await asyncio.sleep(hold)
        if lease.is_trusted:
            await lease.release()
        await asyncio.sleep(pause)


def test_the_ttl_and_the_length_of_holds_are_seen() -> None:
    async def work(another) -> None:
        await for_ever(another(), "order:{}", 1.0, 0.5, ttl=30.0)

    [figures] = watched(work, seconds=90)

    assert (figures.pattern, figures.ttl, figures.source) == ("order:*", 30.0, "looks")
    assert 55 <= figures.holds.count <= 60
    assert 1.0 <= figures.holds.mean <= 1.0 + EVERY
    assert figures.holds.longest <= 1.0 + 2 * EVERY
    [found] = advice_on(figures)
    assert (found.kind, found.ttl) == (AdviceKind.TTL_LONG, 6.0)
    assert "holds, at most 1." in found.message


def test_holds_shorter_than_the_interval_are_seen_by_chance_and_never_as_longer_than_it() -> None:
    async def work(another) -> None:
        await for_ever(another(), "order:{}", 0.05, 0.07, ttl=30.0)

    [figures] = watched(work, seconds=60)

    assert figures.holds.count < 300  # of 500
    assert 0.05 <= figures.holds.longest <= 0.05 + 2 * EVERY


@pytest.mark.parametrize(("hold", "renews"), [(20.0, True), (2.9, False)])
def test_it_is_seen_whether_a_lease_is_renewed(hold, renews) -> None:
    async def work(another) -> None:
        await for_ever(another(), "order:{}", hold, 0.5, ttl=3.0, renew=renews)

    [figures] = watched(work, seconds=120)

    assert (figures.ttl, figures.renews) == (3.0, renews)
    assert bool(figures.renewals) is renews
    assert figures.at_risk == 0


def test_a_hold_that_is_not_renewed_and_runs_out_is_seen() -> None:
    async def work(another) -> None:
        locks = another()
        await asyncio.gather(
            for_ever(locks, "slow:{}", 5.0, 1.0, ttl=2.0, renew=False),
            for_ever(locks, "quick:{}", 1.0, 1.0, ttl=2.0, renew=False),
        )

    by_pattern = {one.pattern: one for one in watched(work, seconds=240)}

    [found] = advice_on(by_pattern["slow:*"])
    assert found.kind is AdviceKind.HOLD_EXCEEDS
    assert "at most 100% of holds" in found.message
    assert by_pattern["quick:*"].exceeded == 0


def test_a_crowd_is_told_from_one_long_hold() -> None:
    async def work(another) -> None:
        crowd = [for_ever(another(), "stock", 0.05, 0.0, ttl=10.0) for _ in range(12)]
        behind = [for_ever(another(), "report", 600.0, 0.0, ttl=10.0) for _ in range(5)]
        await asyncio.gather(*crowd, *behind)

    by_pattern = {one.pattern: one for one in watched(work, seconds=60)}

    stock = by_pattern["stock"].busiest
    assert stock is not None
    assert stock.in_use > 0.95
    assert 10 <= stock.line <= 12
    found = advice_on(by_pattern["stock"])
    assert [(one.kind, one.shards) for one in found] == [(AdviceKind.SHARD, 16)]
    assert "in line on average, and " in found[0].message
    [of_report] = advice_on(by_pattern["report"])
    assert of_report.kind is AdviceKind.TOO_FEW


def test_a_hold_that_goes_on_explains_long_waits() -> None:
    async def work(another) -> None:
        await asyncio.gather(
            for_ever(another(), "report", 20.0, 0.0, ttl=30.0),
            for_ever(another(), "report", 20.0, 0.0, ttl=30.0),
        )

    [figures] = watched(work, seconds=30)

    assert figures.waits.longest >= 15
    assert not figures.waited_for_dead_holder


class HandedOn:
    """Many clients, each admitted by a release: a grant has only a window until it is renewed."""

    def __init__(self, *, hold: float, ttl: float) -> None:
        self.hold, self.ttl = hold, ttl

    def at(self, now: float) -> Inspection:
        token = int(now / self.hold)
        age = now - token * self.hold
        left = ADMISSION_WINDOW_SECONDS - age if age < 1.0 else self.ttl - (age - 1.0)
        holder = Holder(Owner("host", token % 50, "t", ""), token + 1, 1, age, left)
        return Inspection("stock", 1, (holder,), ())


def seen_of(crowd: HandedOn, *, seconds: float) -> tuple[Figures, ...]:
    looking = StoreSampling()
    for number in range(round(seconds / EVERY)):
        looking.look([crowd.at(number * EVERY)], at=number * EVERY)
    return looking.figures()


def test_the_window_of_one_that_was_let_in_is_not_taken_for_its_ttl() -> None:
    """A short hold ends within its window, so the ttl is never seen, and gets no advice."""
    [figures] = seen_of(HandedOn(hold=0.3, ttl=600.0), seconds=60)

    assert (figures.ttl, figures.renews) == (0.0, True)
    assert figures.holds.count > 50
    [found] = advice_on(figures)
    assert found.kind is AdviceKind.FINE
    assert found.message.startswith("its ttl cannot be seen in the store: ")


def test_a_ttl_that_is_seen_once_counts_for_those_that_were_let_in_too() -> None:
    looking = StoreSampling()
    first = Holder(Owner("host", 99, "t", ""), 10**6, 1, 0.1, 599.9)
    looking.look([Inspection("stock", 1, (first,), ())], at=0.0)
    crowd = HandedOn(hold=0.3, ttl=600.0)
    for number in range(1, 300):
        looking.look([crowd.at(number * EVERY)], at=number * EVERY)

    [figures] = looking.figures()

    assert figures.ttl == 600.0
    assert [one.kind for one in advice_on(figures)] == [AdviceKind.TTL_LONG]


def test_one_that_was_let_in_and_goes_on_shows_its_ttl() -> None:
    [figures] = seen_of(HandedOn(hold=3.0, ttl=30.0), seconds=120)

    assert (figures.ttl, figures.renews, figures.at_risk) == (30.0, True, 0)


@pytest.mark.parametrize(("hold", "renews"), [(20.0, True), (2.4, False)])
def test_a_ttl_as_long_as_the_window_is_known_by_what_becomes_of_it(hold, renews) -> None:
    async def work(another) -> None:
        await for_ever(another(), "order:{}", hold, 0.5, ttl=ADMISSION_WINDOW_SECONDS, renew=renews)

    [figures] = watched(work, seconds=120)

    assert (figures.ttl, figures.renews) == (ADMISSION_WINDOW_SECONDS, renews)


def test_what_nobody_uses_has_no_figures() -> None:
    async def work(another) -> None:
        await asyncio.sleep(1)

    assert watched(work, seconds=2) == ()


def test_a_wait_across_a_clock_that_was_set_back_counts_as_none() -> None:
    """An age below zero, as the store reports it, must not lower the mean of the other waits."""
    holder, early, late = (Owner(host="here", pid=pid, label="") for pid in (1, 2, 3))
    sampling = StoreSampling()

    for at, waiters in (
        (0.0, (Waiter(early, 1, 1, -3600.0), Waiter(late, 1, 2, 5.0))),
        (1.0, ()),
    ):
        sampling.look([Inspection("x", 1, (Holder(holder, 1, 1, at + 1, 29.0),), waiters)], at=at)

    [figures] = sampling.figures()
    assert figures.waits.count == 2
    assert 5.0 <= figures.waits.mean * 2 <= 7.0
