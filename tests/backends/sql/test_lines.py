"""When a client looks at the lines in which its claims stand, decided without a server."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lockfast.backends.sql.lines import (
    LESS_QUICK,
    QUICK,
    SLOW,
    STEADY,
    Glance,
    Lines,
    Sight,
)
from lockfast.core.door import WINDOW
from lockfast.model import Claim

FAR = Sight(is_waiting=True, is_head=True, ends_in=30.0, window_ends_in=None)
BEHIND = FAR._replace(is_head=False)


def claim(number: int, name: str = "door") -> Claim:
    return Claim(f"claim {number}", name, "client", "owner", 1, 1, 30.0)


@pytest.fixture
def lines() -> Lines:
    return Lines()


def test_one_look_is_for_all_names_and_for_the_first_of_ours_at_each(lines):
    for number, name in enumerate(("a", "a", "b")):
        lines.stands(claim(number, name), number + 1, BEHIND, now=float(number))

    assert lines.due_at() == STEADY
    assert lines.take_due(STEADY, most=9) == [
        Glance("a", "claim 0", 1),
        Glance("b", "claim 2", 3),
    ]
    assert lines.due_at() == 2 * STEADY


def test_the_first_in_line_looks_when_a_hold_would_be_over(lines):
    lines.stands(claim(1), 1, FAR._replace(ends_in=1.5), now=10.0)

    assert lines.due_at() == 11.5


@pytest.mark.parametrize("rings", [True, False])
def test_the_others_look_when_one_who_was_let_in_has_not_answered(lines, rings):
    lines.rings = rings
    lines.stands(claim(1), 1, BEHIND._replace(ends_in=1.5), now=10.0)
    assert lines.due_at() == 10.0 + (STEADY if rings else SLOW)

    lines.stands(claim(1), 1, BEHIND._replace(window_ends_in=0.5), now=10.0)
    assert lines.due_at() == 10.5


def test_whoever_is_told_that_one_before_it_was_let_in_looks_after_the_window(lines):
    """And not at all while others come and go in front of it."""
    lines.stands(claim(1), 1, BEHIND, now=0.0)

    lines.watch("claim 1", now=1.0)
    first = lines.due_at()
    lines.watch("claim 1", now=3.0)

    assert first == pytest.approx(1.0 + WINDOW, abs=0.1)
    assert lines.due_at() == pytest.approx(3.0 + WINDOW, abs=0.1)


def test_an_answer_that_is_older_than_a_message_does_not_put_the_look_off(lines):
    """It was read before the one in front was let in, and comes after the word of that."""
    lines.stands(claim(1), 1, BEHIND, now=0.0)
    lines.watch("claim 1", now=1.0)

    lines.stands(claim(1), 1, BEHIND, now=1.1)

    assert lines.due_at() == pytest.approx(1.0 + WINDOW, abs=0.1)


@pytest.mark.parametrize(
    "sight",
    [FAR._replace(is_waiting=False), FAR._replace(ends_in=0.0), FAR._replace(ends_in=None), None],
    ids=["let in or turned away", "a hold is over", "nobody is inside", "no such name"],
)
def test_what_is_seen_lets_a_claim_ask(lines, sight):
    lines.stands(claim(1), 1, FAR, now=0.0)
    [glance] = lines.take_due(STEADY, most=9)

    assert list(lines.learn(glance, sight, now=STEADY)) == ["claim 1"]


def test_what_is_seen_of_one_who_has_left_is_forgotten(lines):
    lines.stands(claim(1), 1, FAR, now=0.0)
    [glance] = lines.take_due(STEADY, most=9)
    lines.forget("claim 1", now=STEADY)

    assert list(lines.learn(glance, None, now=STEADY)) == []
    assert not lines.are_any


def test_the_next_of_ours_is_looked_for_when_the_first_leaves(lines):
    lines.stands(claim(1), 1, FAR._replace(ends_in=2.0), now=0.0)
    lines.stands(claim(2), 2, BEHIND, now=0.0)
    lines.forget("claim 1", now=1.0)

    assert lines.due_at() == 2.0
    assert lines.take_due(2.0, most=9) == [Glance("door", "claim 2", 2)]


def test_where_nothing_rings_only_the_head_of_a_line_looks_often(lines):
    lines.rings = False
    lines.stands(claim(1, "a"), 1, FAR, now=0.0)
    lines.stands(claim(2, "b"), 1, BEHIND, now=0.0)

    pauses, now = [], 0.0
    while now < SLOW:
        due_at = lines.due_at()
        pauses.append(due_at - now)
        now = due_at
        for glance in lines.take_due(now, most=9):
            lines.learn(glance, FAR if glance.name == "a" else BEHIND, now=now)

    assert pauses[0] == QUICK
    assert max(pauses) == pytest.approx(LESS_QUICK)


def test_where_nothing_rings_one_look_is_for_all_who_are_not_at_the_head(lines):
    """However many names there are, and whenever each of ours came."""
    lines.rings = False
    for number in range(5):
        lines.stands(claim(number, f"name {number}"), 2, BEHIND, now=number * SLOW / 5)

    looks, now = list[float](), lines.due_at()
    while now < 10 * SLOW:
        looks.append(now)
        for glance in lines.take_due(now, most=9):
            lines.learn(glance, BEHIND, now=now)
        now = lines.due_at()

    assert min(after - before for before, after in pairwise(looks)) >= SLOW * 0.999


def test_where_nothing_rings_the_head_is_looked_for_without_the_others(lines):
    lines.rings = False
    lines.stands(claim(1, "a"), 1, FAR, now=0.0)
    lines.stands(claim(2, "b"), 2, BEHIND, now=0.0)

    assert lines.take_due(QUICK, most=9) == [Glance("a", "claim 1", 1)]
