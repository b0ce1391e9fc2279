"""When a client probes the lines in which its claims stand; tested without a server."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lockfast.backends.sql.wait_schedule import (
    BEHIND_POLL_SECONDS,
    HEAD_POLL_FIRST_SECONDS,
    HEAD_POLL_LONGEST_SECONDS,
    SAFETY_POLL_SECONDS,
    PollSchedule,
    Probe,
    ProbeResult,
)
from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.model import Claim

FAR = ProbeResult(is_waiting=True, is_head=True, ends_in=30.0, window_ends_in=None)
BEHIND = FAR._replace(is_head=False)


def claim(number: int, name: str = "door") -> Claim:
    return Claim(f"claim {number}", name, "client", "owner", 1, 1, 30.0)


@pytest.fixture
def lines() -> PollSchedule:
    return PollSchedule()


def test_one_look_is_for_all_names_and_for_the_first_of_ours_at_each(lines):
    for number, name in enumerate(("a", "a", "b")):
        lines.stands(claim(number, name), number + 1, BEHIND, now=float(number))

    assert lines.due_at() == SAFETY_POLL_SECONDS
    assert lines.take_due(SAFETY_POLL_SECONDS, most=9) == [
        Probe("a", "claim 0", 1),
        Probe("b", "claim 2", 3),
    ]
    assert lines.due_at() == 2 * SAFETY_POLL_SECONDS


def test_the_first_in_line_looks_when_a_hold_would_be_over(lines):
    lines.stands(claim(1), 1, FAR._replace(ends_in=1.5), now=10.0)

    assert lines.due_at() == 11.5


@pytest.mark.parametrize("notifies", [True, False])
def test_the_others_look_when_one_who_was_let_in_has_not_answered(lines, notifies):
    lines.notifies = notifies
    lines.stands(claim(1), 1, BEHIND._replace(ends_in=1.5), now=10.0)
    assert lines.due_at() == 10.0 + (SAFETY_POLL_SECONDS if notifies else BEHIND_POLL_SECONDS)

    lines.stands(claim(1), 1, BEHIND._replace(window_ends_in=0.5), now=10.0)
    assert lines.due_at() == 10.5


def test_whoever_is_told_that_one_before_it_was_let_in_looks_after_the_window(lines):
    """A waiter does not probe the line while claims in front of it keep coming and going."""
    lines.stands(claim(1), 1, BEHIND, now=0.0)

    lines.watch("claim 1", now=1.0)
    first = lines.due_at()
    lines.watch("claim 1", now=3.0)

    assert first == pytest.approx(1.0 + ADMISSION_WINDOW_SECONDS, abs=0.1)
    assert lines.due_at() == pytest.approx(3.0 + ADMISSION_WINDOW_SECONDS, abs=0.1)


def test_an_answer_that_is_older_than_a_message_does_not_put_the_look_off(lines):
    """A reply that is older than a wakeup message, but comes later, does not postpone the probe."""
    lines.stands(claim(1), 1, BEHIND, now=0.0)
    lines.watch("claim 1", now=1.0)

    lines.stands(claim(1), 1, BEHIND, now=1.1)

    assert lines.due_at() == pytest.approx(1.0 + ADMISSION_WINDOW_SECONDS, abs=0.1)


@pytest.mark.parametrize(
    "result",
    [FAR._replace(is_waiting=False), FAR._replace(ends_in=0.0), FAR._replace(ends_in=None), None],
    ids=["let in or turned away", "a hold is over", "nobody is inside", "no such name"],
)
def test_what_is_seen_lets_a_claim_ask(lines, result):
    lines.stands(claim(1), 1, FAR, now=0.0)
    [glance] = lines.take_due(SAFETY_POLL_SECONDS, most=9)

    assert list(lines.learn(glance, result, now=SAFETY_POLL_SECONDS)) == ["claim 1"]


def test_what_is_seen_of_one_who_has_left_is_forgotten(lines):
    lines.stands(claim(1), 1, FAR, now=0.0)
    [glance] = lines.take_due(SAFETY_POLL_SECONDS, most=9)
    lines.forget("claim 1", now=SAFETY_POLL_SECONDS)

    assert list(lines.learn(glance, None, now=SAFETY_POLL_SECONDS)) == []
    assert not lines.has_waiters


def test_the_next_of_ours_is_looked_for_when_the_first_leaves(lines):
    lines.stands(claim(1), 1, FAR._replace(ends_in=2.0), now=0.0)
    lines.stands(claim(2), 2, BEHIND, now=0.0)
    lines.forget("claim 1", now=1.0)

    assert lines.due_at() == 2.0
    assert lines.take_due(2.0, most=9) == [Probe("door", "claim 2", 2)]


def test_where_nothing_rings_only_the_head_of_a_line_looks_often(lines):
    lines.notifies = False
    lines.stands(claim(1, "a"), 1, FAR, now=0.0)
    lines.stands(claim(2, "b"), 1, BEHIND, now=0.0)

    pauses, now = [], 0.0
    while now < BEHIND_POLL_SECONDS:
        due_at = lines.due_at()
        pauses.append(due_at - now)
        now = due_at
        for glance in lines.take_due(now, most=9):
            lines.learn(glance, FAR if glance.name == "a" else BEHIND, now=now)

    assert pauses[0] == HEAD_POLL_FIRST_SECONDS
    assert max(pauses) == pytest.approx(HEAD_POLL_LONGEST_SECONDS)


def test_where_nothing_rings_one_look_is_for_all_who_are_not_at_the_head(lines):
    """Without notifications, one probe covers all claims that are not at the head of a line."""
    lines.notifies = False
    for number in range(5):
        lines.stands(
            claim(number, f"name {number}"), 2, BEHIND, now=number * BEHIND_POLL_SECONDS / 5
        )

    looks, now = list[float](), lines.due_at()
    while now < 10 * BEHIND_POLL_SECONDS:
        looks.append(now)
        for glance in lines.take_due(now, most=9):
            lines.learn(glance, BEHIND, now=now)
        now = lines.due_at()

    assert min(after - before for before, after in pairwise(looks)) >= BEHIND_POLL_SECONDS * 0.999


def test_where_nothing_rings_the_head_is_looked_for_without_the_others(lines):
    lines.notifies = False
    lines.stands(claim(1, "a"), 1, FAR, now=0.0)
    lines.stands(claim(2, "b"), 2, BEHIND, now=0.0)

    assert lines.take_due(HEAD_POLL_FIRST_SECONDS, most=9) == [Probe("a", "claim 1", 1)]
