"""When a client checks the names that its claims wait for; tested without a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.backends.redis import wait_schedule as redis_schedule
from lockfast.backends.sql import wait_schedule as sql_schedule
from lockfast.backends.waiting.schedule import (
    BEHIND_POLL_SECONDS,
    Checked,
    Timing,
    WaitSchedule,
)
from lockfast.model import FOREVER, Claim

HEARTBEATS = Timing(2.0, 0.25, 128, subscribe_timeout=1.0, unheard_poll_seconds=1.0)
PROBES = Timing(5.0, 2.5, 500, subscribe_timeout=1.0, unheard_poll_seconds=1.0)


def claim(number: int, name: str) -> Claim:
    return Claim(f"claim {number}", name, "client", "owner", 1, 1, 30.0)


@dataclass
class Queued:
    """A claim with its arrival, as on SQL servers."""

    claim: Claim
    arrived: int


STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "nothing"]), st.integers(0, 20), st.floats(0, 3)),
    max_size=60,
)


@given(STEPS)
def test_heartbeats_are_due_as_they_were(steps) -> None:
    """Without an order of arrival, the schedule is that of Redis heartbeats, step by step."""
    old, new, now = redis_schedule.HeartbeatSchedule(), WaitSchedule[Any](HEARTBEATS), 0.0
    for what, number, passed in steps:
        now += min(passed, max(0.0, old.due_at() - now))
        one = redis_schedule.WaitingClaim(claim(number, f"name {number % 5}"), number % 2, 0, 0.0)
        if what == "join":
            old.stands(one, now=now, ends_at=now + passed)
            new.add(one, now=now, ends_at=now + passed)
        elif what == "leave":
            old.forget(one.claim.id)
            new.remove(one.claim.id, now=now)

        lines, firsts = old.take_due(now, most=128), new.take_due(now)
        lines.sort(key=lambda line: line.name)
        firsts.sort(key=lambda first: first.claim.name)

        assert [line.name for line in lines] == [first.claim.name for first in firsts]
        for line, first in zip(lines, firsts, strict=True):
            checked = Checked[Any](ends_at=now + passed, asks=lambda one: one.epoch != 1)
            lost = old.learn(line, ends_at=now + passed, epoch=1)
            assert new.learned(first, checked, now=now) == lost
        assert new.due_at() == old.due_at()
        assert list(new.waiting) == list(old.waiting)


class OldProbes:
    """The schedule that SQL servers had."""

    def __init__(self, *, notifies: bool) -> None:
        self._schedule = sql_schedule.PollSchedule(notifies=notifies)
        self.due_at = self._schedule.due_at
        self.watch = self._schedule.watch
        self.remove = self._schedule.forget

    def add(self, one: Queued, world: World, *, now: float) -> None:
        self._schedule.stands(one.claim, one.arrived, world.seen(one.claim, now), now=now)

    def check(self, world: World, *, now: float) -> list[str]:
        probes = self._schedule.take_due(now, most=500)
        for one in probes:
            self._schedule.learn(one, world.seen(claim(0, one.name), now), now=now)
        return [one.claim_id for one in probes]


class Probes:
    """The schedule that SQL servers have."""

    def __init__(self, *, notifies: bool) -> None:
        self._schedule = WaitSchedule[Queued](PROBES, arrival=lambda one: one.arrived)
        self._schedule.notifies = notifies
        self.due_at = self._schedule.due_at
        self.watch = self._schedule.watch
        self.remove = self._schedule.remove

    def add(self, one: Queued, world: World, *, now: float) -> None:
        ends_at, is_head = self._as_checked(world.seen(one.claim, now), now)
        self._schedule.add(one, now=now, ends_at=ends_at, is_head=is_head)

    def check(self, world: World, *, now: float) -> list[str]:
        firsts = self._schedule.take_due(now)
        for one in firsts:
            checked = Checked[Queued](*self._as_checked(world.seen(one.claim, now), now))
            self._schedule.learned(one, checked, now=now)
        return [one.claim.id for one in firsts]

    def _as_checked(self, seen: sql_schedule.ProbeResult, now: float) -> tuple[float, bool]:
        ends_in = seen.ends_in if seen.is_head else seen.window_ends_in
        return (FOREVER if ends_in is None else now + max(0.02, ends_in)), seen.is_head


class World:
    """What a store says: at every other name we are first in line, and holds end at set times."""

    def seen(self, one: Claim, now: float) -> sql_schedule.ProbeResult:
        number = int(one.name.split()[1])
        period = 3.0 + number
        ends_in = period - now % period
        is_head = number % 2 == 0
        return sql_schedule.ProbeResult(
            is_waiting=True,
            is_head=is_head,
            ends_in=ends_in,
            window_ends_in=None if number % 3 else ends_in,
        )


@pytest.mark.parametrize("notifies", [True, False])
@given(steps=STEPS)
def test_probes_are_due_hardly_more_often_than_they_were(notifies, steps) -> None:
    """In the same world, the new schedule probes about as often as that of SQL servers did.

    An answer to a claim used to postpone the probe of its name, so each step may cost one more.
    """
    old, new = OldProbes(notifies=notifies), Probes(notifies=notifies)
    looks = {id(old): 0, id(new): 0}
    world, now, arrivals = World(), 0.0, 0

    def run(one: OldProbes | Probes, until: float) -> None:
        while (moment := one.due_at()) <= until:
            looks[id(one)] += 1
            one.check(world, now=moment)

    for what, number, passed in steps:
        now += passed
        run(old, now)
        run(new, now)
        queued = Queued(claim(number, f"name {number % 5}"), arrivals := arrivals + 1)
        for one in (old, new):
            if what == "join":
                one.add(queued, world, now=now)
            elif what == "leave":
                one.remove(queued.claim.id, now=now)
            elif notifies:
                one.watch(queued.claim.id, now=now)
    run(old, now + 20)
    run(new, now + 20)

    assert looks[id(new)] <= looks[id(old)] + len(steps)


@pytest.mark.parametrize("notifies", [True, False])
@given(steps=STEPS)
def test_a_name_is_checked_by_the_end_of_a_hold_and_in_every_interval(notifies, steps) -> None:
    """Whatever joins, leaves and is answered, no name waits longer for its next check."""
    schedule = WaitSchedule[Queued](PROBES, arrival=lambda one: one.arrived)
    schedule.notifies = notifies
    interval = PROBES.steady_seconds if notifies else BEHIND_POLL_SECONDS
    steady: dict[str, float] = {}
    ends: dict[str, float] = {}
    now = 0.0
    for what, number, passed in steps:
        now += min(passed, max(0.0, schedule.due_at() - now))
        one = Queued(claim(number, f"name {number % 5}"), number)
        name = one.claim.name
        if what == "join":
            schedule.add(one, now=now, ends_at=now + passed, is_head=True)
            steady.setdefault(name, now + interval)
            if schedule.is_first(one.claim):
                ends[name] = now + passed
        elif what == "leave":
            schedule.remove(one.claim.id, now=now)
            if not schedule.has_waiters_at(name):
                steady.pop(name, None)
                ends.pop(name, None)
        while schedule.due_at() <= now:
            for first in schedule.take_due(now):
                assert schedule.learned(first, Checked(), now=now) == []
                steady[first.claim.name] = now + interval
                ends.pop(first.claim.name, None)

        assert schedule.due_at() <= min([*steady.values(), *ends.values()], default=FOREVER)
        assert bool(schedule.waiting) == (schedule.due_at() < FOREVER)
