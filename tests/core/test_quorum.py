"""What the replies of N nodes mean together, in every combination and every order."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.quorum import (
    TOKEN_MAX_LEAD,
    Floor,
    NodeVote,
    Verdict,
    allotted,
    majority,
    may_ignore_node,
    node_timeout,
    nodes_to_end,
    renewal,
    validity,
    verdict,
)
from lockfast.model import Renewal

NODES = st.integers(1, 9)
ANSWERED = (NodeVote.GRANTED, NodeVote.REFUSED, NodeVote.NOT_COUNTED, NodeVote.UNREACHABLE)
standings = st.lists(st.sampled_from(NodeVote), min_size=1, max_size=9)


@given(NODES)
def test_two_majorities_share_a_node(nodes):
    assert 2 * majority(nodes) > nodes
    assert 2 * (majority(nodes) - 1) <= nodes


@given(NODES)
def test_a_claim_that_was_ended_on_enough_nodes_holds_no_majority(nodes):
    assert nodes - nodes_to_end(nodes) < majority(nodes)
    assert nodes - (nodes_to_end(nodes) - 1) >= majority(nodes)


@given(NODES, NODES, st.data())
def test_a_node_with_other_terms_is_passed_over_only_if_its_clients_need_one_of_ours(
    nodes, of_nodes, data
):
    """Each majority of the other list has one of our nodes, if one list contains the other."""
    agreeing = data.draw(st.integers(0, min(nodes - 1, of_nodes)))

    if may_ignore_node(of_nodes=of_nodes, agreeing=agreeing, nodes=nodes):
        without_ours = of_nodes - agreeing if of_nodes >= nodes else min(of_nodes, nodes - agreeing)
        assert without_ours < majority(of_nodes)


@given(standings)
def test_only_a_majority_of_nodes_that_count_grants(found):
    is_granted = found.count(NodeVote.GRANTED) >= majority(len(found))

    assert (verdict(found) is Verdict.GRANTED) == is_granted


@given(standings, st.sampled_from(ANSWERED))
def test_what_is_decided_by_answers_is_not_undone_by_those_who_answer_later(found, answer):
    """A later reply changes no verdict, except that an overdue node may still make a majority."""
    before = verdict(found)
    if NodeVote.WAITING not in found or before is Verdict.OPEN:
        return
    later = [answer if one is NodeVote.WAITING else one for one in found]

    if NodeVote.OVERDUE not in found:
        assert verdict(later) is before


@given(standings)
def test_when_the_time_is_up_it_is_decided(found):
    assert verdict(found, is_time_up=True) is not Verdict.OPEN


@given(standings)
def test_it_stays_open_only_while_somebody_could_answer(found):
    if verdict(found) is Verdict.OPEN:
        assert {NodeVote.WAITING, NodeVote.OVERDUE} & set(found)


def test_a_hung_node_delays_no_refusal_that_the_others_can_decide():
    healthy = [NodeVote.GRANTED, NodeVote.GRANTED, NodeVote.REFUSED]

    assert verdict([*healthy, NodeVote.OVERDUE, NodeVote.OVERDUE]) is Verdict.REFUSED
    assert verdict([*healthy, NodeVote.WAITING, NodeVote.OVERDUE]) is Verdict.OPEN


def test_a_hung_node_is_waited_for_where_nobody_else_is_left():
    few = [NodeVote.GRANTED, NodeVote.GRANTED, NodeVote.UNREACHABLE, NodeVote.UNREACHABLE]

    assert verdict([*few, NodeVote.OVERDUE]) is Verdict.OPEN
    assert verdict([*few, NodeVote.OVERDUE], is_time_up=True) is Verdict.UNREACHABLE


def test_a_node_that_does_not_count_is_no_refusal():
    """If too few nodes count toward the quorum, no holder is known: an outage, not contention."""
    assert (
        verdict([NodeVote.GRANTED] * 2 + [NodeVote.NOT_COUNTED] * 3, is_time_up=True)
        is Verdict.UNREACHABLE
    )


@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 5])
def test_a_renewal_is_won_by_a_majority_and_lost_when_none_can_be_left(nodes):
    for outcomes in product(Renewal, repeat=nodes):
        found = renewal(outcomes)
        kept, unknown = outcomes.count(Renewal.RENEWED), outcomes.count(Renewal.UNKNOWN)

        assert (found is Renewal.RENEWED) == (kept >= majority(nodes))
        if found is Renewal.UNKNOWN:
            assert kept + unknown >= majority(nodes)
        if found is Renewal.BROKEN:
            assert Renewal.BROKEN in outcomes


@given(st.floats(0.05, 60), st.floats(0, 120))
def test_the_validity_is_what_is_left_of_the_ttl_and_less(ttl, elapsed):
    assert validity(ttl=ttl, elapsed=elapsed) < ttl - elapsed
    assert validity(ttl=ttl, elapsed=ttl) < 0


@given(st.floats(0.05, 60))
def test_a_node_is_waited_for_far_shorter_than_the_ttl(ttl):
    assert 0 < node_timeout(ttl) <= min(0.05, ttl / 20)


# -- the token -----------------------------------------------------------------------------


@given(st.lists(st.integers(1, 6), min_size=3, max_size=5))
def test_a_token_is_settled_when_a_majority_gave_it(tokens):
    found = allotted(tokens, nodes=5)

    assert found.is_settled == any(tokens.count(one) >= 3 for one in tokens)
    assert found.token == max(tokens) or tokens.count(found.token) >= 3


@given(st.lists(st.floats(0, 1000), min_size=3, max_size=5), st.floats(0, 5), st.booleans())
def test_a_margin_never_goes_so_far_that_nodes_ignore_it(tokens, margin, is_settled):
    floor = Floor(ahead=0.0, margin=margin)

    after = floor.after(ahead=3.0, tokens=tokens, asked=1.0, is_settled=is_settled)

    assert 0 < after.margin < TOKEN_MAX_LEAD or margin == after.margin
    assert after.at(100.0) == 103.0 + after.margin


def test_nothing_is_asked_for_before_a_clock_is_known():
    assert Floor().at(1234.5) == 0.0


def test_a_margin_that_was_short_becomes_enough():
    floor = Floor(ahead=0.0, margin=0.002)
    for _ in range(20):
        asked = floor.at(100.0)
        short = asked < 100.074
        floor = floor.after(
            ahead=0.0, tokens=[max(asked, 100.074)], asked=asked, is_settled=not short
        )

    assert 0.07 < floor.margin < 0.2
