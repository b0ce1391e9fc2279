"""Spans of time: a few numbers summarize many."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.observe.figures import (
    FINE_BUCKETS_SECONDS,
    FIRST_BUCKET_SECONDS,
    LAST_BUCKET,
    DurationHistogram,
    DurationSummary,
)

seconds = st.floats(min_value=0.0, max_value=1e6)


def counted(many: list[float]) -> DurationHistogram:
    spans = DurationHistogram(FINE_BUCKETS_SECONDS)
    for one in many:
        spans.add(one)
    return spans


@given(many=st.lists(seconds, min_size=1), part=st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_never_too_short_and_at_most_a_fifth_too_long(many, part) -> None:
    exact = sorted(many)[math.ceil(len(many) * part) - 1]

    quantile = counted(many).quantile(part)

    assert quantile >= exact or quantile == pytest.approx(exact)
    assert quantile <= max(FIRST_BUCKET_SECONDS, exact * 1.1893)


@given(many=st.lists(seconds, min_size=1))
def test_count_mean_and_longest_are_exact(many) -> None:
    spread = counted(many).spread()

    assert spread.count == len(many)
    assert spread.mean == pytest.approx(math.fsum(many) / len(many))
    assert spread.longest == max(many)


@given(many=st.lists(st.floats(min_value=-1e9, max_value=1e300), max_size=300))
def test_memory_does_not_grow_with_what_is_counted(many) -> None:
    assert len(counted(many)._buckets) <= LAST_BUCKET + 1


def test_none_are_like_nothing() -> None:
    assert DurationHistogram(FINE_BUCKETS_SECONDS).spread() == DurationSummary(
        0, 0.0, 0.0, 0.0, 0.0
    )


def test_a_negative_span_counts_as_zero() -> None:
    """A clock that was set back measures a negative span."""
    assert counted([-3600.0, 6.0]).spread().mean == 3.0
