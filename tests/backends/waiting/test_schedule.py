"""When a client checks the names that its claims wait for; tested without a store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.backends.redis._sync.waiting import HEARTBEAT_SECONDS, RedisWaiting
from lockfast.backends.redis._sync.waiting import HEARTBEAT_TOGETHER_SECONDS as TOGETHER
from lockfast.backends.sql._sync.waiting import SAFETY_POLL_SECONDS, SqlWaiting
from lockfast.backends.waiting.schedule import (
    BEHIND_POLL_SECONDS,
    HEAD_POLL_FIRST_SECONDS,
    HEAD_POLL_LONGEST_SECONDS,
    Checked,
    WaitSchedule,
)
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.model import FOREVER, Claim


@dataclass
class Queued:
    """A claim that waits, with its arrival."""

    claim: Claim
    arrived: int


def queued(number: int, name: str = "door", *, arrived: int | None = None) -> Queued:
    one = Claim(f"claim {number}", name, "client", "owner", 1, 1, 30.0)
    return Queued(one, number if arrived is None else arrived)


def heartbeats() -> WaitSchedule[Any]:
    """Return the schedule of heartbeats: an answer to any claim counts for its name."""
    return WaitSchedule(RedisWaiting.timing)


def probes(*, notifies: bool = True) -> WaitSchedule[Queued]:
    """Return the schedule of probes: the first claim at each name is probed."""
    one = WaitSchedule[Queued](SqlWaiting.timing, arrival=lambda one: one.arrived)
    one.notifies = notifies
    return one


@pytest.fixture
def schedule() -> WaitSchedule[Queued]:
    return probes()


def names(taken: list[Any]) -> list[str]:
    return sorted(one.claim.name for one in taken)


# -- which names are checked together --------------------------------------------------------


def test_every_name_is_checked_once_however_many_claims_wait_for_it():
    """Checks cover each name once, in batches."""
    schedule = heartbeats()
    for number in range(3000):
        schedule.add(queued(number, f"door {number % 1000}"), now=0.0, ends_at=FOREVER)

    rounds = []
    while schedule.due_at() <= HEARTBEAT_SECONDS:
        rounds.append(names(schedule.take_due(HEARTBEAT_SECONDS)))

    checked = [name for each in rounds for name in each]
    assert len(checked) == len(set(checked)) == 1000
    assert max(map(len, rounds)) == RedisWaiting.timing.names_per_check
    assert schedule.due_at() == 2 * HEARTBEAT_SECONDS


def test_a_check_for_the_end_of_a_hold_is_not_made_early():
    """It would be useless before, while a steady check may go along with others."""
    schedule = heartbeats()
    schedule.add(queued(0, "usual"), now=0.0, ends_at=FOREVER)
    end = HEARTBEAT_SECONDS + TOGETHER / 2
    schedule.add(queued(1, "ends"), now=TOGETHER, ends_at=end)

    early, late = schedule.take_due(HEARTBEAT_SECONDS), schedule.take_due(end)

    assert (names(early), names(late)) == (["usual"], ["ends"])


def test_what_is_due_a_little_later_goes_along():
    """Checks that are due shortly after one another are made together."""
    schedule = heartbeats()
    for number in range(10):
        schedule.add(queued(number, f"door {number}"), now=number * TOGETHER / 20, ends_at=FOREVER)

    assert len(schedule.take_due(HEARTBEAT_SECONDS)) == 10


def test_a_name_is_checked_no_more_once_its_last_claim_has_left(schedule):
    for number in range(2):
        schedule.add(queued(number, f"door {number}"), now=0.0, ends_at=FOREVER)

    schedule.remove("claim 0", now=0.0)
    schedule.remove("unknown", now=0.0)

    assert names(schedule.take_due(SAFETY_POLL_SECONDS)) == ["door 1"]


def test_the_claims_at_a_name_are_found_by_it(schedule):
    for number, name in enumerate(("a", "a", "b")):
        schedule.add(queued(number, name), now=0.0, ends_at=FOREVER)

    assert schedule.of_name("a") == ["claim 0", "claim 1"]
    assert schedule.has_waiters_at("b")
    assert not schedule.has_waiters_at("c")


# -- which claim stands for its name ---------------------------------------------------------


def test_the_first_of_ours_at_each_name_is_checked(schedule):
    schedule.add(queued(2, "a"), now=0.0, ends_at=FOREVER)
    schedule.add(queued(1, "a"), now=1.0, ends_at=FOREVER)
    schedule.add(queued(3, "b"), now=2.0, ends_at=FOREVER)

    taken = schedule.take_due(SAFETY_POLL_SECONDS)

    assert [one.claim.id for one in taken] == ["claim 1", "claim 3"]
    assert schedule.due_at() == 2 * SAFETY_POLL_SECONDS


def test_a_claim_that_arrived_again_is_behind_the_others(schedule):
    for number in (1, 2):
        schedule.add(queued(number), now=0.0, ends_at=FOREVER)

    schedule.add(queued(1, arrived=3), now=0.0, ends_at=FOREVER)

    assert not schedule.is_first(queued(1).claim)
    assert schedule.is_first(queued(2).claim)


def test_the_next_of_ours_is_checked_when_the_first_leaves(schedule):
    schedule.add(queued(1), now=0.0, ends_at=2.0, is_head=True)
    schedule.add(queued(2), now=0.0, ends_at=FOREVER)

    schedule.remove("claim 1", now=1.0)

    assert schedule.due_at() == 2.0
    assert [one.claim.id for one in schedule.take_due(2.0)] == ["claim 2"]


def test_an_answer_to_a_claim_behind_ours_says_nothing_where_order_counts(schedule):
    schedule.add(queued(1), now=0.0, ends_at=2.0)
    schedule.add(queued(2), now=0.0, ends_at=1.0)
    either = heartbeats()
    either.add(queued(1), now=0.0, ends_at=1.9)
    either.add(queued(2), now=0.0, ends_at=1.0)

    assert schedule.due_at() == 2.0
    assert either.due_at() == 1.0


# -- when a name is checked ------------------------------------------------------------------


def test_a_claim_ahead_that_was_admitted_postpones_the_check_by_its_window(schedule):
    """A waiter does not check the line while claims in front of it keep coming and going."""
    schedule.add(queued(1), now=0.0, ends_at=FOREVER)

    schedule.watch("claim 1", now=1.0)
    first = schedule.due_at()
    schedule.watch("claim 1", now=3.0)

    assert first == pytest.approx(1.0 + ADMISSION_WINDOW_SECONDS, abs=0.1)
    assert schedule.due_at() == pytest.approx(3.0 + ADMISSION_WINDOW_SECONDS, abs=0.1)


def test_an_answer_that_is_older_than_a_message_does_not_postpone_the_check(schedule):
    """A reply that is older than a wakeup message, but comes later, does not postpone the check."""
    schedule.add(queued(1), now=0.0, ends_at=FOREVER)
    schedule.watch("claim 1", now=1.0)

    schedule.add(queued(1), now=1.1, ends_at=FOREVER)

    assert schedule.due_at() == pytest.approx(1.0 + ADMISSION_WINDOW_SECONDS, abs=0.1)


def test_after_a_gap_in_listening_each_name_is_checked_unless_its_claims_ask(schedule):
    for number in range(3):
        schedule.add(queued(number, f"door {number}"), now=0.0, ends_at=FOREVER)

    asking = schedule.missed(lambda one: one.arrived == 1, now=1.0)

    assert asking == ["claim 1"]
    assert schedule.due_at() == 1.0


def test_if_all_ask_after_a_gap_nothing_is_checked(schedule):
    schedule.add(queued(1), now=0.0, ends_at=FOREVER)

    assert schedule.missed(lambda _: True, now=1.0) == ["claim 1"]
    assert schedule.due_at() == SAFETY_POLL_SECONDS


# -- what an answer says ---------------------------------------------------------------------


def test_an_answer_says_which_claims_at_its_name_should_ask(schedule):
    for number, name in enumerate(("a", "a", "b")):
        schedule.add(queued(number, name), now=0.0, ends_at=FOREVER)
    first, _ = schedule.take_due(SAFETY_POLL_SECONDS)

    everyone = schedule.learned(first, Checked(asks=lambda _: True), now=SAFETY_POLL_SECONDS)
    alone = schedule.learned(first, Checked(asks=lambda one: one is first), now=SAFETY_POLL_SECONDS)

    assert (everyone, alone) == (["claim 0", "claim 1"], ["claim 0"])


def test_an_answer_counts_for_a_claim_that_has_asked_meanwhile(schedule):
    """The claim's entry is still the same, and nobody would repeat the answer."""
    schedule.add(queued(1), now=0.0, ends_at=FOREVER)
    [first] = schedule.take_due(SAFETY_POLL_SECONDS)
    schedule.add(queued(1), now=SAFETY_POLL_SECONDS, ends_at=FOREVER)

    asking = schedule.learned(first, Checked(asks=lambda _: True), now=SAFETY_POLL_SECONDS)

    assert asking == ["claim 1"]


@pytest.mark.parametrize("has_left", [True, False])
def test_an_answer_about_an_entry_that_is_gone_says_nothing(schedule, has_left):
    schedule.add(queued(1), now=0.0, ends_at=FOREVER)
    [first] = schedule.take_due(SAFETY_POLL_SECONDS)
    if has_left:
        schedule.remove("claim 1", now=SAFETY_POLL_SECONDS)
    else:
        schedule.add(queued(1, arrived=7), now=SAFETY_POLL_SECONDS, ends_at=FOREVER)

    assert schedule.learned(first, Checked(asks=lambda _: True), now=SAFETY_POLL_SECONDS) == []


# -- without notifications -------------------------------------------------------------------


def test_without_notifications_only_the_head_of_a_line_is_checked_often():
    schedule = probes(notifies=False)
    schedule.add(queued(1, "a"), now=0.0, ends_at=FOREVER, is_head=True)
    schedule.add(queued(2, "b"), now=0.0, ends_at=FOREVER)

    pauses, now = [], 0.0
    while now < BEHIND_POLL_SECONDS:
        due_at = schedule.due_at()
        pauses.append(due_at - now)
        now = due_at
        for one in schedule.take_due(now):
            schedule.learned(one, Checked(is_head=one.claim.name == "a"), now=now)

    assert pauses[0] == HEAD_POLL_FIRST_SECONDS
    assert max(pauses) == pytest.approx(HEAD_POLL_LONGEST_SECONDS)


def test_without_notifications_one_check_is_for_all_that_are_not_at_the_head():
    schedule = probes(notifies=False)
    for number in range(5):
        now = number * BEHIND_POLL_SECONDS / 5
        schedule.add(queued(number, f"name {number}"), now=now, ends_at=FOREVER)

    checks, now = list[float](), schedule.due_at()
    while now < 10 * BEHIND_POLL_SECONDS:
        checks.append(now)
        for one in schedule.take_due(now):
            schedule.learned(one, Checked(), now=now)
        now = schedule.due_at()

    apart = [after - before for before, after in pairwise(checks)]
    assert min(apart) >= BEHIND_POLL_SECONDS * 0.999


def test_without_notifications_the_head_is_checked_without_the_others():
    schedule = probes(notifies=False)
    schedule.add(queued(1, "a"), now=0.0, ends_at=FOREVER, is_head=True)
    schedule.add(queued(2, "b"), now=0.0, ends_at=FOREVER)

    assert names(schedule.take_due(HEAD_POLL_FIRST_SECONDS)) == ["a"]


def test_without_notifications_a_new_first_claim_is_checked_soon():
    schedule = probes(notifies=False)
    schedule.add(queued(1), now=0.0, ends_at=FOREVER)
    schedule.add(queued(2), now=0.0, ends_at=FOREVER)

    schedule.remove("claim 1", now=0.5)

    assert schedule.due_at() == 0.5 + HEAD_POLL_FIRST_SECONDS


def test_without_notifications_a_new_first_claim_at_the_head_is_checked_as_often_at_first():
    schedule = probes(notifies=False)
    for _ in range(9):
        schedule.add(queued(1), now=0.0, ends_at=FOREVER, is_head=True)
    schedule.add(queued(2), now=0.0, ends_at=FOREVER)

    schedule.remove("claim 1", now=0.5)
    schedule.add(queued(2), now=0.5, ends_at=FOREVER, is_head=True)

    assert schedule.due_at() == 0.5 + HEAD_POLL_FIRST_SECONDS


# -- always ----------------------------------------------------------------------------------


STEPS = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "nothing"]), st.integers(0, 20), st.floats(0, 3)),
    max_size=60,
)


@pytest.mark.parametrize("notifies", [True, False])
@given(steps=STEPS)
def test_a_name_is_checked_by_the_end_of_a_hold_and_in_every_interval(notifies, steps) -> None:
    """Whatever joins, leaves and is answered, no name waits longer for its next check."""
    schedule = probes(notifies=notifies)
    interval = SAFETY_POLL_SECONDS if notifies else BEHIND_POLL_SECONDS
    steady: dict[str, float] = {}
    ends: dict[str, float] = {}
    now = 0.0
    for what, number, passed in steps:
        now += min(passed, max(0.0, schedule.due_at() - now))
        one = queued(number, f"name {number % 5}")
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


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99), st.booleans()), max_size=60))
def test_the_claim_that_arrived_first_stands_for_its_name(steps) -> None:
    """However claims join, arrive again and leave, the first by arrival is checked."""
    schedule = probes()
    arrivals: dict[str, int] = {}
    for number, arrived, joins in steps:
        one = queued(number, arrived=arrived * 10 + number)  # no two arrivals are the same
        if joins:
            schedule.add(one, now=0.0, ends_at=FOREVER)
            arrivals[one.claim.id] = one.arrived
        else:
            schedule.remove(one.claim.id, now=0.0)
            arrivals.pop(one.claim.id, None)

        taken = schedule.take_due(SAFETY_POLL_SECONDS)
        assert [one.arrived for one in taken] == ([min(arrivals.values())] if arrivals else [])
        if taken:
            schedule.missed(lambda _: False, now=0.0)  # due again


class Interrupted(Exception):
    """Raised in the middle of a change."""


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("others", [0, 1])
def test_a_change_that_was_interrupted_can_be_undone(joins, others) -> None:
    """Wherever an interrupt strikes, another removal leaves nothing behind of the claim."""
    lines, was_struck = 0, True
    while was_struck:
        lines += 1
        schedule = probes()
        for number in range(others):
            schedule.add(queued(5 + number), now=0.0, ends_at=FOREVER)
        if not joins:
            schedule.add(queued(1), now=0.0, ends_at=FOREVER)
        try:
            with interrupted_at(lines):
                if joins:
                    schedule.add(queued(1), now=0.0, ends_at=FOREVER)
                else:
                    schedule.remove("claim 1", now=0.0)
            was_struck = False
        except Interrupted:
            pass
        schedule.take_due(0.0)

        schedule.remove("claim 1", now=0.0)

        assert len(schedule.waiting) == others
        assert schedule.has_waiters_at("door") == bool(others)
        assert len(schedule.take_due(SAFETY_POLL_SECONDS)) == others
        schedule.add(queued(2), now=10.0, ends_at=FOREVER)
        assert len(schedule.take_due(20.0)) == 1
    assert lines > 5


@contextmanager
def interrupted_at(line: int) -> Iterator[None]:
    """Raise Interrupted before the given line of the block's calls."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if event == "line" and frame.f_code.co_filename.endswith("schedule.py"):
            left -= 1
            if left == 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_a_name_whose_claims_all_ask_is_checked_as_early_as_others_without_notifications(schedule):
    """Otherwise the next check would be due as late as while notifications arrived."""
    schedule.add(queued(1), now=0.0, ends_at=FOREVER)
    schedule.notifies = False

    asking = schedule.missed(lambda _: True, now=0.0)

    assert asking == ["claim 1"]
    assert schedule.due_at() <= BEHIND_POLL_SECONDS
