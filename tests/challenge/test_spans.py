"""Stretches of time, joined and left out."""

from __future__ import annotations

from math import inf

from lockfast.challenge.checker.spans import Span, gaps, joined


def test_what_is_near_is_one():
    spans = [Span(5.0, 6.0), Span(1.0, 2.0), Span(1.5, 1.7), Span(2.5, 3.0)]

    assert joined(spans, pause=0.5) == [Span(1.0, 3.0), Span(5.0, 6.0)]


def test_what_is_left_of_all_time():
    spans = [Span(5.0, 6.0), Span(1.0, 2.0), Span(1.5, 1.7)]

    assert gaps(spans) == [Span(-inf, 1.0), Span(2.0, 5.0), Span(6.0, inf)]
    assert gaps([]) == [Span(-inf, inf)]


def test_what_lies_elsewhere_has_no_length():
    assert Span(1.0, 3.0).within(Span(2.0, 9.0)) == Span(2.0, 3.0)
    assert Span(1.0, 3.0).within(Span(4.0, 9.0)).length < 0
