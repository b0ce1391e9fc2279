"""From when a session's time counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.ensemble.proof import APART, Proof


def test_the_opening_proves_itself() -> None:
    assert Proof(opened_at=100.0, ttl=30.0).counted_from == 100.0


def test_a_heartbeat_proves_the_one_before_it() -> None:
    proof = Proof(opened_at=0.0, ttl=30.0)

    proof.answered(sent_at=10.0, now=10.1)
    assert proof.counted_from == 0.0
    proof.answered(sent_at=20.0, now=20.1)
    assert proof.counted_from == 10.0
    proof.answered(sent_at=30.0, now=30.1)
    assert proof.counted_from == 20.0


def test_two_in_a_row_prove_nothing() -> None:
    """Both may fall between two pings of the leader, which then knows of neither."""
    proof = Proof(opened_at=0.0, ttl=30.0)
    proof.answered(sent_at=10.0, now=10.1)

    proof.answered(sent_at=10.2, now=10.3)
    proof.answered(sent_at=10.4, now=10.5)

    assert proof.counted_from == 0.0


def test_slow_answers_prove_the_one_before_the_last() -> None:
    """What counts is the time from an answer to the next request."""
    proof = Proof(opened_at=0.0, ttl=30.0)
    for sent_at in (10.0, 20.0, 30.0, 40.0):
        proof.answered(sent_at=sent_at, now=sent_at + 5.0)

    assert proof.counted_from == 20.0


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 5.0)), max_size=30))
def test_it_counts_from_a_heartbeat_long_enough_before_an_answered_one(steps) -> None:
    proof, ttl, now = Proof(opened_at=0.0, ttl=30.0), 30.0, 0.0
    answered = [(0.0, 0.0)]
    for pause, delay in steps:
        sent_at = now + pause
        now = sent_at + delay
        before = proof.counted_from
        proof.answered(sent_at=sent_at, now=now)
        proven = [one for one, at in answered if at <= sent_at - APART * ttl]

        assert proof.counted_from == max([before, *proven])
        answered.append((sent_at, now))


@given(st.lists(st.floats(0.0, 4.0), min_size=2, max_size=20), st.floats(0.2, 100.0))
def test_heartbeats_sent_when_due_all_count(delays: list[float], ttl: float) -> None:
    """However slow the answers are; and a third of the ttl is left when the next is due."""
    proof, sent = Proof(opened_at=0.0, ttl=ttl), [0.0]
    for delay in delays:
        sent_at = proof.next_due
        proof.answered(sent_at=sent_at, now=sent_at + delay * ttl / 100)

        assert proof.counted_from == sent[-1]
        assert proof.counted_from + ttl - proof.next_due > ttl / 4
        sent.append(sent_at)
