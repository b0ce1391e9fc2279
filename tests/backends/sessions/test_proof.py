"""The moment from which a session's ttl counts."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from lockfast.backends.sessions.keepalive import LEADER_INFORMED_FRACTION, SessionProof


def test_the_opening_proves_itself() -> None:
    assert SessionProof(opened_at=100.0, ttl=30.0).counted_from == 100.0


def test_a_heartbeat_confirms_the_one_before_it() -> None:
    proof = SessionProof(opened_at=0.0, ttl=30.0)

    proof.keepalive_answered(sent_at=10.0, now=10.1, is_confirmed=True)
    assert proof.counted_from == 0.0
    proof.keepalive_answered(sent_at=20.0, now=20.1, is_confirmed=True)
    assert proof.counted_from == 10.0
    proof.keepalive_answered(sent_at=30.0, now=30.1, is_confirmed=True)
    assert proof.counted_from == 20.0


def test_two_in_a_row_confirm_nothing() -> None:
    """The leader may not know of keep-alives between two of its pings, so they confirm nothing."""
    proof = SessionProof(opened_at=0.0, ttl=30.0)
    proof.keepalive_answered(sent_at=10.0, now=10.1, is_confirmed=True)

    proof.keepalive_answered(sent_at=10.2, now=10.3, is_confirmed=True)
    proof.keepalive_answered(sent_at=10.4, now=10.5, is_confirmed=True)

    assert proof.counted_from == 0.0


def test_slow_answers_confirm_the_one_before_the_last() -> None:
    """A keep-alive confirms an earlier one only if that one was answered before it was sent."""
    proof = SessionProof(opened_at=0.0, ttl=30.0)
    for sent_at in (10.0, 20.0, 30.0, 40.0):
        proof.keepalive_answered(sent_at=sent_at, now=sent_at + 5.0, is_confirmed=True)

    assert proof.counted_from == 20.0


def test_answers_that_no_majority_confirmed_are_good_for_waiting_only() -> None:
    """A deposed leader also answers keep-alives, so unconfirmed replies prove no lease."""
    proof = SessionProof(opened_at=0.0, ttl=30.0)
    for sent_at in (10.0, 20.0, 30.0):
        proof.keepalive_answered(sent_at=sent_at, now=sent_at, is_confirmed=False)

    assert proof.counted_from == 0.0
    assert proof.contact_from == 20.0


def test_a_transaction_confirms_what_was_heard_before_it() -> None:
    """The create of an acquire is a confirmation, as a member that is cut off cannot answer it."""
    proof = SessionProof(opened_at=0.0, ttl=30.0)
    for sent_at in (10.0, 20.0, 30.0):
        proof.keepalive_answered(sent_at=sent_at, now=sent_at, is_confirmed=False)

    proof.confirmed(sent_at=31.0, now=31.1)

    assert proof.counted_from == 20.0


def test_a_greeting_counts_once_a_transaction_follows_it() -> None:
    """The handshake asks the leader, and the next transaction proves that it was the leader."""
    proof = SessionProof(opened_at=0.0, ttl=30.0)

    proof.greeted(sent_at=25.0, now=25.1)
    assert proof.counted_from == 0.0
    assert proof.contact_from == 25.0
    proof.keepalive_answered(sent_at=25.2, now=25.3, is_confirmed=True)
    assert proof.counted_from == 25.0


def test_a_transaction_that_was_asked_for_before_a_greeting_says_nothing_about_it() -> None:
    """An older transaction may have gone to another member, so it confirms no greeting."""
    proof = SessionProof(opened_at=0.0, ttl=30.0)

    proof.greeted(sent_at=25.0, now=25.1)
    proof.keepalive_answered(sent_at=24.9, now=25.3, is_confirmed=True)

    assert proof.counted_from == 0.0


def test_however_many_transactions_there_are_few_are_remembered() -> None:
    proof = SessionProof(opened_at=0.0, ttl=30.0)
    for number in range(30_000):
        proof.confirmed(sent_at=number / 1000, now=number / 1000)

    assert len(proof._contacts) < 20
    assert 29.999 - proof.counted_from < (LEADER_INFORMED_FRACTION + 0.1) * 30.0


def test_a_heartbeat_that_proves_itself_counts_from_when_it_was_sent() -> None:
    """A keep-alive that asks the quorum itself counts from the moment it was sent."""
    proof = SessionProof(opened_at=0.0, ttl=30.0)

    proof.keepalive_answered(sent_at=10.0, now=10.1, is_confirmed=True, proves_itself=True)

    assert proof.counted_from == 10.0
    assert proof.next_due > 10.1 + 0.3 * 30.0


def test_one_that_would_prove_itself_and_was_not_confirmed_proves_nothing() -> None:
    """An unconfirmed keep-alive may have reached a deposed leader, so it never counts."""
    proof = SessionProof(opened_at=0.0, ttl=30.0)

    proof.keepalive_answered(sent_at=10.0, now=10.1, is_confirmed=False, proves_itself=True)
    assert proof.counted_from == 0.0
    proof.keepalive_answered(sent_at=9.0, now=25.0, is_confirmed=True, proves_itself=True)
    assert proof.counted_from == 9.0


Step = tuple[float, float, str]
steps_of_life = st.lists(
    st.tuples(st.floats(0.0, 20.0), st.floats(0.0, 5.0), st.sampled_from(["beat", "sync", "other"]))
)


@given(steps_of_life)
def test_it_counts_from_a_sign_long_enough_before_a_confirmed_one(steps: list[Step]) -> None:
    proof, ttl, now = SessionProof(opened_at=0.0, ttl=30.0), 30.0, 0.0
    answered = [(0.0, 0.0)]
    for pause, delay, kind in steps:
        sent_at = now + pause
        now = sent_at + delay
        before = proof.counted_from
        if kind == "other":
            proof.confirmed(sent_at=sent_at, now=now)
        else:
            proof.keepalive_answered(sent_at=sent_at, now=now, is_confirmed=kind == "beat")
        known = [one for one, at in answered if at <= sent_at - LEADER_INFORMED_FRACTION * ttl]

        assert before <= proof.counted_from <= max([before, *known])
        if kind == "sync":
            assert proof.counted_from == before
        answered.append((sent_at, now))


@given(st.lists(st.floats(0.0, 4.0), min_size=2, max_size=20), st.floats(0.2, 100.0))
def test_heartbeats_sent_when_due_all_count(delays: list[float], ttl: float) -> None:
    """Every keep-alive sent when due counts, and about a third of the ttl is left at the next."""
    proof, sent = SessionProof(opened_at=0.0, ttl=ttl), [0.0]
    for delay in delays:
        sent_at = proof.next_due
        proof.keepalive_answered(
            sent_at=sent_at, now=sent_at + delay * ttl / 100, is_confirmed=True
        )

        assert proof.counted_from == sent[-1]
        assert proof.counted_from + ttl - proof.next_due > ttl / 4
        sent.append(sent_at)


@given(st.floats(0.0, 2.0), st.floats(0.0, 1.0))
@example(waited=0.31, created_at=0.31)
@example(waited=0.0, created_at=0.61)
def test_a_lease_that_begins_at_any_time_has_a_third_left_at_the_next_heartbeat(
    waited: float, created_at: float
) -> None:
    """A new lease has a third of the ttl left at the next heartbeat, or its proof is stale.

    That holds after a wait of any length with only `sync` requests.
    """
    proof, ttl = SessionProof(opened_at=0.0, ttl=1.0), 1.0
    while proof.next_due <= created_at:
        proof.keepalive_answered(sent_at=proof.next_due, now=proof.next_due, is_confirmed=False)
    proof.confirmed(sent_at=created_at, now=created_at)
    granted_at = created_at + waited
    while proof.next_due <= granted_at:
        proof.keepalive_answered(sent_at=proof.next_due, now=proof.next_due, is_confirmed=False)

    if proof.is_stale(granted_at):
        proof.keepalive_answered(sent_at=granted_at, now=granted_at, is_confirmed=True)

    assert not proof.is_stale(granted_at)
    assert proof.counted_from + ttl - proof.next_due > ttl / 4
