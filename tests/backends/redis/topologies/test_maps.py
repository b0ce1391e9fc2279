"""Which node's slot map is believed; tested without a server."""

from __future__ import annotations

from typing import Any

import pytest

from lockfast.backends.redis.cluster_map import MapPoll, SlotMap, candidates, read_map, slot_map
from lockfast.backends.redis.resp import ErrorReply
from lockfast.core.descriptor import Endpoint
from lockfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    OutcomeUnknown,
)

A, B, C, D = (Endpoint(one, 1) for one in "abcd")
SEED = Endpoint("seed", 1)
GONE = BackendUnavailable("away")


def same(address: Endpoint) -> Endpoint:
    return address


def reply(*owners: Endpoint, last: int = 16383) -> list[Any]:
    """Return a slot map that divides the slots up to `last` among these nodes."""
    step = (last + 1) // len(owners)
    starts = [i * step for i in range(len(owners))]
    ends = [*(one - 1 for one in starts[1:]), last]
    return [
        [first, end, [one.host.encode(), one.port, b"id"]]
        for first, end, one in zip(starts, ends, owners, strict=True)
    ]


def reported(*owners: Endpoint, last: int = 16383) -> SlotMap:
    return slot_map(reply(*owners, last=last), reported_by=SEED, remap=same)


def elected(poll: MapPoll, answers: dict[Endpoint, Any]) -> tuple[SlotMap, list[Endpoint]]:
    """Return the map that is believed, and the nodes that were asked for it."""
    asked = []
    while (node := poll.next(0.0)) is not None:
        asked.append(node)
        poll.deliver(node, answers[node], now=0.0)
    return poll.elected(where="here"), asked


def poll(known: SlotMap | None, *seeds: Endpoint, suspects: tuple[Endpoint, ...] = ()) -> MapPoll:
    return MapPoll(known, seeds=seeds, suspects=suspects, start=0.0)


def test_a_map_is_read_as_the_nodes_tell_it():
    """In a slot map, a missing host means the host that was asked; `?` means no node."""
    answer = [
        [0, 99, [b"a", 1, b"id"], [b"c", 1, b"id"]],
        [100, 199, [None, 2, b"id"]],
        [200, 299, [b"?", 4, b"id"]],
    ]

    slots = slot_map(answer, reported_by=Endpoint("b", 9), remap=same)

    b = Endpoint("b", 2)
    assert [slots.owners[i] for i in (0, 99, 100, 200, 300)] == [A, A, b, None, None]
    assert slots.masters == [A, b]
    assert slots.nodes == {A, b, C}
    assert slots.covered == 200


@pytest.mark.parametrize(
    "answer",
    [
        *(None, 0, 1.5, True, b"OK", {}, {b"a": 1}, {1: 2}, [1, 2], [[]], [None], [[0, 1]]),
        *([[0, 1, 2]], [[0, 1, None]], [[0, 1, []]], [[0, 1, [b"a"]]], [[b"0", b"1", [b"a", 1]]]),
        *([[0, 16384, [b"a", 1]]], [[-1, 5, [b"a", 1]]], [[0, 2**60, [b"a", 1]]]),
        *([[0, 1, [b"a", None]]], [[0, 1, [b"a", 70_000]]], [[0, 1, [b"\xff", 1]]]),
        *([[0, 1, [b"a", 1], 7]], [[0.5, 1, [b"a", 1]]], [[0, 1, {b"a": 1}]]),
    ],
    ids=repr,
)
def test_an_answer_that_is_no_map_is_an_error_of_ours(answer):
    """Every reply that is not a slot map becomes a LockError, whatever its type."""
    found = read_map(answer, reported_by=A, remap=same, where="here")

    kind = BackendUnavailable if answer == {} else BackendMisbehaved
    assert isinstance(found, kind)


def test_an_empty_map_is_no_answer():
    found = read_map([], reported_by=A, remap=same, where="here")

    assert isinstance(found, BackendUnavailable)
    assert "removed" in str(found)


def test_a_server_without_a_cluster_is_a_mistake():
    refusal = ErrorReply("ERR This instance has cluster support disabled")

    found = read_map(refusal, reported_by=A, remap=same, where="here")

    assert isinstance(found, ConfigurationError)


def test_those_who_failed_are_asked_last():
    slots = SlotMap([A] * 16384, [A, B], frozenset({A, B, C}))

    assert candidates(slots, seeds=[SEED], suspects={A}, start=0.9) == [B, C, SEED, A]


def test_a_majority_of_the_masters_is_enough():
    slots, asked = elected(poll(None, A), {one: reported(A, B, C) for one in (A, B, C)})

    assert slots.masters == [A, B, C]
    assert asked == [A, B]


def test_three_that_agree_are_enough_among_hundreds():
    many = [Endpoint(f"n{i:03}", 1) for i in range(200)]

    _, asked = elected(poll(reported(*many)), {one: reported(*many) for one in many})

    assert len(asked) == 3


def test_a_master_that_is_cut_off_is_outvoted():
    """A master that was cut off reports an old map, which the other masters outvote."""
    new = reported(D, B, C)
    answers = {A: reported(A, B, C), B: new, C: new, D: new}

    slots, asked = elected(poll(None, A, B), answers)

    assert slots.reported == new.reported
    assert asked == [A, B, C]


def test_who_left_for_a_cluster_of_its_own_is_outvoted():
    """A node that left to form its own cluster claims all slots, and is outvoted."""
    new = reported(B, C)
    answers = {A: reported(A), B: new, C: new}

    slots, _ = elected(poll(reported(A, B, C), A), answers)

    assert slots.reported == new.reported


def test_a_part_of_the_slots_counts_only_where_nobody_tells_more():
    part, whole = reported(A, last=99), reported(B, C)

    slots, _ = elected(poll(None, A, B), {A: part, B: whole, C: whole})
    alone, asked = elected(poll(None, A, B), {A: part, B: GONE})

    assert slots.reported == whole.reported
    assert (alone.reported, asked) == (part.reported, [A, B])


def test_a_cluster_that_serves_a_part_of_the_slots_is_no_reason_to_ask_everybody():
    part = reported(A, B, C, last=9000)

    _, asked = elected(poll(part), dict.fromkeys((A, B, C), part))

    assert asked == [A, B]


def test_who_failed_is_not_waited_for_when_others_answer():
    """Nodes that failed are not waited for, and only masters give a second opinion."""
    slots, asked = elected(poll(reported(A, B, C), SEED, suspects=(A, B)), {C: reported(A, B, C)})

    assert slots.masters == [A, B, C]
    assert asked == [C]


def test_without_a_majority_the_first_of_the_best_counts():
    mine, theirs = reported(A, B), reported(B, C)

    slots, _ = elected(poll(reported(A, B)), {A: mine, B: theirs, C: GONE})

    assert slots.reported == mine.reported


def test_a_seed_by_another_name_has_no_vote():
    """A seed known by another address has no vote: it may be the very master that is cut off."""
    old, new = reported(A, B, C), reported(D, B, C)

    slots, _ = elected(poll(None, SEED), {SEED: old, A: old, B: new, C: new, D: new})

    assert slots.reported == new.reported


def test_other_opinions_are_not_waited_for_as_long_as_the_first_map():
    one = poll(None, A)
    assert one.next(0.0) == A
    first = one.until(now=0.0, deadline=30.0)
    one.deliver(A, reported(A, B), now=1.0)

    assert one.next(1.0) == B
    assert one.until(now=1.0, deadline=31.0) < 1.0 + first
    assert one.next(2.0) is None
    assert one.elected(where="here").masters == [A, B]


def test_a_part_of_the_slots_is_no_reason_to_stop_asking():
    one = poll(None, A, B)
    assert one.next(0.0) == A
    one.deliver(A, reported(A, last=99), now=1.0)

    assert one.next(20.0) == B


def test_who_did_not_tell_what_the_others_believe_is_doubted():
    found = poll(reported(A, B, C), suspects=(A,))
    slots, _ = elected(found, {B: GONE, C: reported(A, B, C)})

    assert found.doubted(slots) == {A, B}


@pytest.mark.parametrize(
    ("answers", "kind"),
    [
        ([GONE, ConfigurationError("wrong password")], ConfigurationError),
        ([BackendMisbehaved("no map"), GONE], BackendMisbehaved),
        ([GONE, OutcomeUnknown("no answer")], BackendUnavailable),
    ],
)
def test_without_any_map_the_most_telling_error_is_raised(answers, kind):
    with pytest.raises(kind):
        elected(poll(None, A, B), dict(zip((A, B), answers, strict=True)))


def test_why_no_node_tells_the_map_is_said():
    with pytest.raises(BackendUnavailable, match="no node tells the map: no answer"):
        elected(poll(None, A), {A: OutcomeUnknown("no answer")})
