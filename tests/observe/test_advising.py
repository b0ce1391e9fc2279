"""The advisor says what a person would say given these figures, and nothing if it has few."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.observe.advice import AdviceKind, advice_on, rounded_up, shards_for
from lockfast.observe.figures import Busiest, DurationSummary, Figures

QUICK = DurationSummary(count=500, mean=0.02, median=0.02, p99=0.05, longest=0.1)
RENEWED = Figures(pattern="order:*", ttl=10.0, renews=True, seconds=60.0, holds=QUICK)
UNRENEWED = replace(RENEWED, renews=False, ttl=1.0)


def only(figures: Figures):
    [found] = advice_on(figures)
    return found


def test_few_holds_say_nothing() -> None:
    found = only(replace(RENEWED, ttl=3600.0, holds=replace(QUICK, count=12)))

    assert found.kind is AdviceKind.TOO_FEW
    assert found.ttl is None
    assert "12 holds seen in 1 min, and fewer than 30" in found.message


@pytest.mark.parametrize("ttl", [6.0, 10.0, 12.0])
def test_a_ttl_that_fits_is_said_to_fit(ttl) -> None:
    assert only(replace(RENEWED, ttl=ttl)).kind is AdviceKind.FINE


def test_a_long_ttl_of_a_renewed_lease_is_measured_by_what_renewals_need() -> None:
    """A long ttl is not judged by the holds, as a renewed lease lasts as long as the work does."""
    hours = DurationSummary(count=500, mean=7200.0, median=7200.0, p99=9000.0, longest=9000.0)
    renewed = replace(
        RENEWED, ttl=120.0, holds=hours, renewals=90_000, usual_margin=80.0, least_margin=78.0
    )

    found = only(renewed)

    assert (found.kind, found.level, found.ttl) == (AdviceKind.TTL_LONG, "note", 15.0)
    assert "at worst 2.0 s late" in found.message
    assert "rides out 10 s of a store that is away (ttl=120: 1 min 20 s)" in found.remedy


def test_a_long_ttl_without_any_renewal_says_that_pauses_were_not_measured() -> None:
    found = only(replace(RENEWED, ttl=3600.0))

    assert (found.kind, found.level, found.ttl) == (AdviceKind.TTL_LONG, "warning", 6.0)
    assert "no renewal was due" in found.message
    assert "pauses of the process were not measured" in found.remedy


def test_a_wait_that_no_hold_explains_shows_what_a_long_ttl_costs() -> None:
    waits = DurationSummary(count=500, mean=0.1, median=0.001, p99=0.01, longest=28.0)

    found = only(replace(RENEWED, ttl=30.0, waits=waits))

    assert (found.kind, found.level) == (AdviceKind.TTL_LONG, "warning")
    assert "somebody waited 28 s, which no hold explains" in found.message


def test_late_renewals_ask_for_a_longer_ttl_once_a_lease_was_at_risk() -> None:
    late = replace(RENEWED, renewals=50, at_risk=2, usual_margin=6.6, least_margin=2.6)

    found = only(late)

    assert (found.kind, found.level, found.ttl) == (AdviceKind.TTL_SHORT, "note", 30.0)
    assert "2 times one was at risk" in found.message


def test_renewed_leases_that_expire_ask_for_a_longer_ttl_however_few_they_were() -> None:
    found = only(replace(RENEWED, holds=replace(QUICK, count=2), losses=(("expired", 3),)))

    assert (found.kind, found.level, found.ttl) == (AdviceKind.TTL_SHORT, "warning", 20.0)
    assert "3 leases expired although renewed" in found.message


def test_holds_beyond_their_ttl_are_told_in_percent() -> None:
    slow = DurationSummary(count=180, mean=0.5, median=0.4, p99=0.95, longest=0.98)

    found = only(replace(UNRENEWED, holds=slow, losses=(("broken", 1), ("expired", 20))))

    assert (found.kind, found.level, found.ttl) == (AdviceKind.HOLD_EXCEEDS, "warning", 3.0)
    assert found.message.startswith("10% of holds (20 of 200) went on beyond ttl=1")
    assert "renew=True" in found.remedy


def test_without_renewal_the_rule_of_thumb_counts_and_the_longest_hold() -> None:
    assert only(replace(UNRENEWED, ttl=1.0)).kind is AdviceKind.FINE
    assert only(replace(UNRENEWED, ttl=60.0)).kind is AdviceKind.TTL_LONG
    assert only(replace(UNRENEWED, ttl=60.0)).ttl == 1.0
    near = replace(UNRENEWED, holds=replace(QUICK, longest=0.95))
    assert (only(near).kind, only(near).ttl) == (AdviceKind.TTL_SHORT, 1.5)
    assert "the longest hold was 950 ms, 95% of it" in only(near).message


HOT = Busiest(name="stock", acquired=1000, stood_in_line=980, mean_wait=0.31, mean_hold=0.01)


def test_a_line_that_is_long_for_its_holds_is_to_be_split() -> None:
    [found] = advice_on(replace(RENEWED, busiest=HOT, timeouts=1))

    assert (found.kind, found.level, found.shards) == (AdviceKind.SHARD, "warning", 32)
    assert "98% of 1000 acquires had to wait, 310 ms on average for holds of 10 ms" in found.message
    assert "31 holds ahead of each" in found.message
    assert "1 wait timed out" in found.message
    assert "locks.sharded('stock', shards=32)" in found.remedy
    assert "locks.striped('stock', key)" in found.remedy


@pytest.mark.parametrize(
    "busiest",
    [
        replace(HOT, mean_hold=0.3),  # the hold time explains the waits
        replace(HOT, stood_in_line=20),  # one crash, not many waiters
        replace(HOT, acquired=20, stood_in_line=20),
    ],
)
def test_waits_that_are_explained_are_no_reason_to_split(busiest) -> None:
    assert only(replace(RENEWED, busiest=busiest)).kind is AdviceKind.FINE


def test_both_the_ttl_and_the_line_are_told() -> None:
    kinds = [one.kind for one in advice_on(replace(RENEWED, ttl=60.0, busiest=HOT))]

    assert kinds == [AdviceKind.TTL_LONG, AdviceKind.SHARD]


@given(seconds=st.floats(min_value=0.01, max_value=1e7))
def test_a_ttl_that_is_advised_is_round_and_not_too_short(seconds) -> None:
    rounded = rounded_up(seconds)

    assert seconds * 0.999 <= rounded <= seconds * 1.67
    assert len(f"{rounded:g}".replace(".", "").strip("0").partition("e")[0]) <= 2


@given(ahead=st.floats(min_value=0.0, max_value=1e6))
def test_there_are_more_shards_than_holds_ahead_but_not_without_end(ahead) -> None:
    assert min(ahead, 63) < shards_for(ahead) <= 64


figures = st.builds(
    Figures,
    pattern=st.just("x"),
    ttl=st.floats(min_value=0.05, max_value=604800),
    renews=st.booleans(),
    source=st.sampled_from(["events", "looks"]),
    holds=st.builds(
        DurationSummary,
        count=st.integers(0, 1000),
        mean=st.floats(0, 1000),
        median=st.floats(0, 1000),
        p99=st.floats(0, 1000),
        longest=st.floats(0, 1000),
    ),
    losses=st.sampled_from([(), (("expired", 1),), (("expired", 7), ("taken", 1))]),
    at_risk=st.integers(0, 3),
    renewals=st.integers(0, 3),
    least_margin=st.none() | st.floats(-10, 100),
    usual_margin=st.none() | st.floats(0, 100),
    busiest=st.none()
    | st.builds(
        Busiest,
        name=st.text(),
        acquired=st.integers(0, 100),
        stood_in_line=st.integers(0, 100),
        mean_wait=st.floats(0, 100),
        mean_hold=st.floats(0, 100),
        line=st.floats(0, 100),
    ),
)


@given(figures=figures)
def test_whatever_the_figures_something_is_said_and_it_follows_from_them(figures) -> None:
    found = advice_on(figures)

    assert found
    assert all(one.message and one.figures is figures for one in found)
    for one in found:
        if one.kind is AdviceKind.TTL_LONG:
            assert one.ttl is not None
            assert one.ttl < figures.ttl
        if one.kind in (AdviceKind.TTL_SHORT, AdviceKind.HOLD_EXCEEDS):
            assert one.ttl is not None
            assert one.ttl > figures.ttl
