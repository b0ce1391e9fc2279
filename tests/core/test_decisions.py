"""Trust, renewal, back-off, outages, tokens: values in, values out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockfast.core import backoff, door, renewal
from lockfast.core.backoff import OutagePatience
from lockfast.model import Renewal

seconds = st.floats(0.05, 1e5)
moments = st.floats(0, 1e7)


@given(sent_at=moments, ttl=seconds)
def test_trust_ends_before_the_store_could_give_the_name_away(sent_at: float, ttl: float) -> None:
    """The store's clock for the ttl started no earlier than the request was sent."""
    assert renewal.trusted_until(sent_at=sent_at, ttl=ttl) < sent_at + ttl


@given(until=moments, sent_at=moments, wait=st.floats(0, 100), ttl=seconds)
def test_an_unanswered_renewal_changes_nothing(
    until: float, sent_at: float, wait: float, ttl: float
) -> None:
    after = renewal.after_renewal(
        until, Renewal.UNKNOWN, sent_at=sent_at, now=sent_at + wait, ttl=ttl
    )

    assert after == (until if sent_at + wait < until else None)


@given(until=moments, sent_at=moments, wait=st.floats(0, 100), ttl=seconds)
def test_an_answer_after_the_deadline_revives_nothing(
    until: float, sent_at: float, wait: float, ttl: float
) -> None:
    now = sent_at + wait
    after = renewal.after_renewal(until, Renewal.RENEWED, sent_at=sent_at, now=now, ttl=ttl)

    assert (after is None) == (now >= until)
    if after is not None:
        assert after >= until


@given(sent_at=moments, ttl=seconds)
def test_two_renewals_may_fail_before_trust_ends(sent_at: float, ttl: float) -> None:
    until = renewal.trusted_until(sent_at=sent_at, ttl=ttl)
    first = renewal.due_after(sent_at=sent_at, ttl=ttl)
    second = renewal.retry_after_silence(now=first, ttl=ttl)

    assert sent_at < first < second < until


@given(now=moments, until=moments, ttl=seconds, unanswered=st.booleans())
def test_at_risk_is_never_said_of_what_is_over(
    now: float, until: float, ttl: float, *, unanswered: bool
) -> None:
    at_risk = renewal.is_at_risk(now=now, until=until, ttl=ttl, unanswered=unanswered)

    assert not (at_risk and now >= until)
    if now < until:
        assert at_risk == (unanswered or now >= renewal.at_risk_from(until=until, ttl=ttl))


@given(last=st.integers(0, 2**52), clock=st.floats(0, 2**51 / 1e6))
def test_a_token_is_larger_than_the_last_and_no_smaller_than_the_clock(
    last: int, clock: float
) -> None:
    token = door.next_token(last=last, clock=clock)

    assert token > last
    assert token >= int(clock * 1e6)
    assert token < door.TOKEN_LIMIT


@given(attempt=st.integers(0, 10_000), jitter=st.floats(0, 0.999))
def test_a_pause_grows_and_is_bounded(attempt: int, jitter: float) -> None:
    pause = backoff.delay(attempt, jitter=jitter)

    assert backoff.FIRST_PAUSE_SECONDS / 2 <= pause <= backoff.LONGEST_PAUSE_SECONDS


@given(wait=st.floats(0, 1e4), jitter=st.floats(0, 0.999))
def test_spreading_out_never_asks_early(wait: float, jitter: float) -> None:
    assert wait <= backoff.spread(wait, jitter=jitter) <= wait + 0.05


@given(since=moments, waits=st.lists(st.floats(0, 100), max_size=30), deadline=moments, ttl=seconds)
def test_an_outage_is_outlived_up_to_a_ttl_in_line_and_once_before(
    since: float, waits: list[float], deadline: float, ttl: float
) -> None:
    """A claim in line outlives an outage of up to a ttl; outside the line, it retries once.

    A retry never passes the caller's deadline, and a place in line expires after a ttl.
    """
    in_line, outside, now = OutagePatience(since), OutagePatience(since), since
    for number, wait in enumerate(waits):
        now += wait
        facts = {"now": now, "deadline": deadline, "ttl": ttl}

        assert in_line.should_retry(**facts, was_answered=True) == (
            now < min(deadline, since + ttl)
        )
        assert outside.should_retry(**facts, was_answered=False) == (now < deadline and number == 0)
        in_line, outside = in_line.again(), outside.again()
