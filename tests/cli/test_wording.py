"""How facts are worded for people."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast import Holder, Inspection, Owner, Waiter
from lockfast.cli.run import waiting_sentence
from lockfast.cli.text import ordinal
from lockfast.model import printable
from lockfast.observe.figures import duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0004, "0.4 ms"),
        (0.012, "12 ms"),
        (1.56, "1.6 s"),
        (12.4, "12 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_a_duration_is_said_in_the_units_that_matter(seconds, said):
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("number", "said"),
    [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"), (12, "12th"), (101, "101st")],
)
def test_a_place_in_line_is_said_as_people_do(number, said):
    assert ordinal(number) == said


@given(st.text())
def test_nothing_that_is_printed_can_command_a_terminal(text):
    assert printable(text).isprintable()


@given(st.text(st.characters(exclude_categories=["C", "Z"])))
def test_what_is_printable_is_shown_as_it_is(text):
    assert printable(text) == text


def test_a_waiter_is_told_its_place_and_the_holder():
    seen = Inspection(
        name="report",
        capacity=1,
        holders=(Holder(Owner("web-1", 4711), token=7, weight=1, age=12.0, remaining=8.0),),
        line=(
            Waiter(Owner("web-2", 1), weight=1, place=1),
            Waiter(Owner("web-3", 2), weight=1, place=2),
        ),
    )

    assert waiting_sentence(seen, host="web-3", pid=2) == (
        "2nd in line for report; held by web-1 pid 4711 for 12 s, token 7"
    )
