"""The waiters that can never go on are found exactly, and the cycle that keeps them is named."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.deadlocks import Link, Owned, Wait, cycle_of, cycles

NAMES = "abcd"
PEOPLE = range(6)


def lock(who, name, place=1):
    return Wait(who, name, 1, 1, place)


def test_two_who_wait_for_each_other_are_a_cycle():
    waits = [lock("A", "y"), lock("B", "x")]
    holds = [Owned("A", "x", 1), Owned("B", "y", 1)]

    assert cycle_of("B", waits, holds) == (Link("B", "x"), Link("A", "y"))
    assert cycles(waits, holds) == [(Link("A", "y"), Link("B", "x"))]


def test_who_holds_all_permits_and_asks_for_one_more_waits_for_itself():
    assert cycle_of("A", [lock("A", "s")], [Owned("A", "s", 1)]) == (Link("A", "s"),)


def test_a_chain_that_ends_with_somebody_who_works_is_no_cycle():
    waits = [lock("A", "y"), lock("B", "z")]

    assert not cycles(waits, [Owned("A", "x", 1), Owned("B", "y", 1), Owned("C", "z", 1)])


def test_a_semaphore_is_closed_only_if_all_its_holders_are_stuck():
    waits = [Wait("A", "s", 1, 2, 1), lock("B", "x")]
    holds = [Owned("A", "x", 1), Owned("B", "s", 1), Owned("C", "s", 1)]

    assert not cycles(waits, holds)
    assert cycles([*waits, lock("C", "x", 2)], holds)


def test_a_reader_behind_a_writer_waits_for_the_writer_too():
    everything = 100
    waits = [
        lock("reader", "y"),
        Wait("writer", "x", everything, everything, 1),
        Wait("late", "x", 1, everything, 2),
    ]
    holds = [Owned("reader", "x", 1), Owned("late", "y", 1)]

    assert cycle_of("late", waits, holds) == (
        Link("late", "x", is_ahead=True),
        Link("writer", "x"),
        Link("reader", "y"),
    ) or cycle_of("late", waits, holds) == (Link("late", "x"), Link("reader", "y"))


def test_somebody_who_seems_to_wait_twice_is_taken_to_go_on():
    """Waiters that an older client recorded alike are never reported as a deadlock."""
    waits = [lock("A", "y"), lock("A", "z"), lock("B", "x")]

    assert not cycles(waits, [Owned("A", "x", 1), Owned("B", "y", 1), Owned("B", "z", 1)])


@st.composite
def situations(draw):
    """Draw who holds what and who waits for what, in a state that a fair store can reach."""
    capacity = {name: draw(st.integers(1, 3)) for name in NAMES}
    holds: list[Owned[int]] = []
    for name in NAMES:
        inside = draw(st.lists(st.sampled_from(PEOPLE), max_size=capacity[name]))
        holds += [Owned(who, name, 1) for who in inside]
    waits: list[Wait[int]] = []
    lines = dict.fromkeys(NAMES, 0)
    for who in draw(st.permutations(PEOPLE)):
        name = draw(st.sampled_from([*NAMES, None]))
        if name is None:
            continue
        lines[name] += 1
        weight = draw(st.integers(1, capacity[name]))
        waits.append(Wait(who, name, weight, capacity[name], lines[name]))
    return waits, holds


def left_in_the_end(waits, holds):
    """Make waiters go on until none can; a waiter that goes on releases all its holds."""
    waiting, held = list(waits), list(holds)
    while True:
        still = {one.who for one in waiting}
        held = [one for one in held if one.who in still]
        for one in waiting:
            inside = sum(other.weight for other in held if other.name == one.name)
            first = min(other.place for other in waiting if other.name == one.name)
            if one.place == first and inside + one.weight <= one.capacity:
                waiting.remove(one)
                break
        else:
            return {one.who for one in waiting}


@given(situations())
def test_those_are_stuck_who_are_left_when_all_others_have_gone_on(situation):
    waits, holds = situation

    stuck = {one.who for one in waits if cycle_of(one.who, waits, holds)}

    assert stuck == left_in_the_end(waits, holds)


@given(situations())
def test_each_link_waits_for_what_the_next_has_or_waits_for_before_it(situation):
    waits, holds = situation
    wait_of = {one.who: one for one in waits}

    for cycle in cycles(waits, holds):
        for link, following in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            assert wait_of[link.who].name == link.name
            if link.is_ahead:
                assert wait_of[following.who].place < wait_of[link.who].place
            else:
                assert (following.who, link.name) in {(one.who, one.name) for one in holds}


@given(situations())
def test_somebody_is_stuck_exactly_if_there_is_a_cycle(situation):
    assert bool(cycles(*situation)) == bool(left_in_the_end(*situation))
