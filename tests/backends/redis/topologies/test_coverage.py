"""Which slots no node serves, and how they are written; tested without a server."""

from __future__ import annotations

import pytest

from lockfast.backends.redis.cluster_map import Coverage, SlotMap, slot_map, spans
from lockfast.core.descriptor import Endpoint
from lockfast.errors import BackendUnavailable

A, B = Endpoint("a", 1), Endpoint("b", 1)


def told(*ranges: tuple[int, int, str]) -> SlotMap:
    reply = [[first, last, [host.encode(), 1, b"id"]] for first, last, host in ranges]
    return slot_map(reply, reported_by=A, remap=lambda one: one)


WHOLE = told((0, 99, "a"), (100, 16383, "b"))


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ([7], "slot 7 of 16384"),
        ([3, 1, 2, 9], "slots 1-3, 9 of 16384"),
        (range(0, 40, 2), "slots 0, 2, 4, 6, 8, 10, 12, 14 and 12 more of 16384"),
    ],
)
def test_slots_are_written_as_spans(slots, words):
    assert spans(slots) == words


def test_a_slot_is_unserved_if_its_owner_lacks_it_on_its_own_map():
    own = told((0, 9, "a"), (11, 99, "a"), (100, 16383, "b"))

    assert Coverage.of(WHOLE, {A: own, B: WHOLE}).unserved == {10}


def test_a_slot_is_served_if_only_another_node_lacks_it():
    """A node whose map lacks a slot may only be behind; the owner's own map decides."""
    behind = told((100, 16383, "b"))

    assert not Coverage.of(WHOLE, {A: WHOLE, B: behind}).unserved


def test_a_slot_that_its_owner_calls_another_nodes_is_served():
    """A slot that its owner assigns to another node has just moved, and requests follow it."""
    own = told((0, 16383, "b"))

    assert not Coverage.of(WHOLE, {A: own, B: WHOLE}).unserved


def test_a_node_that_lists_itself_without_a_name_serves_its_slots():
    own = told((0, 99, "?"), (100, 16383, "b"))

    assert not Coverage.of(WHOLE, {A: own, B: WHOLE}).unserved


def test_a_list_is_incomplete_by_each_node_that_failed():
    gone = BackendUnavailable("away")
    found = Coverage.of(WHOLE, {A: gone, B: WHOLE})

    assert found.incomplete({}, where="here") is None
    error = found.incomplete({A: gone}, where="here")
    assert str(error) == (
        "here: this list is incomplete: a:1 (slots 0-99 of 16384) did not answer: away"
    )
