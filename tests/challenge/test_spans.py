"""Spans of time, merged and subtracted."""

from __future__ import annotations

from math import inf

from lockfast_challenge.checker.holds import TimeSpan, gaps, joined


def test_what_is_near_is_one():
    spans = [TimeSpan(5.0, 6.0), TimeSpan(1.0, 2.0), TimeSpan(1.5, 1.7), TimeSpan(2.5, 3.0)]

    assert joined(spans, pause=0.5) == [TimeSpan(1.0, 3.0), TimeSpan(5.0, 6.0)]


def test_what_is_left_of_all_time():
    spans = [TimeSpan(5.0, 6.0), TimeSpan(1.0, 2.0), TimeSpan(1.5, 1.7)]

    assert gaps(spans) == [TimeSpan(-inf, 1.0), TimeSpan(2.0, 5.0), TimeSpan(6.0, inf)]
    assert gaps([]) == [TimeSpan(-inf, inf)]


def test_what_lies_elsewhere_has_no_length():
    assert TimeSpan(1.0, 3.0).within(TimeSpan(2.0, 9.0)) == TimeSpan(2.0, 3.0)
    assert TimeSpan(1.0, 3.0).within(TimeSpan(4.0, 9.0)).length < 0
