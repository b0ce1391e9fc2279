"""The line of one client's own: the first asks for all."""

from __future__ import annotations

from holdfast.backends.sql.local_lines import LocalLines


def test_the_first_who_comes_asks_and_the_others_do_not():
    lines = LocalLines()

    assert [lines.join("key", one) for one in "abab"] == [True, False, True, False]
    assert lines.join("other key", "b")


def test_who_leaves_makes_room_for_who_comes_next():
    lines = LocalLines()
    for one in "abc":
        lines.join("key", one)

    for leaving, first in [("b", "a"), ("a", "c"), ("a", "c"), ("c", None), ("c", None)]:
        lines.leave("key", leaving)
        assert lines.first("key") == first


def test_questions_are_counted_while_one_waits():
    lines = LocalLines()
    lines.join("key", "a")

    assert [lines.asked("key", "a") for _ in range(3)] == [0, 1, 2]
    assert [lines.asked("key", "stranger") for _ in range(2)] == [0, 0]
