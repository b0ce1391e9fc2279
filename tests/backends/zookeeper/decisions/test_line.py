"""Who is admitted and who watches whom: decided from one list of children."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.backends.zookeeper.line import admitted, must_touch, to_watch
from holdfast.backends.zookeeper.nodes import Node
from holdfast.model import ALL

capacities = st.sampled_from([1, 2, 3, 7, ALL])


@st.composite
def lines(draw) -> tuple[int, list[Node]]:
    capacity = draw(capacities)
    largest = st.sampled_from([1, ALL]) if capacity == ALL else st.integers(1, capacity)
    weights = draw(st.lists(largest, max_size=12))
    line = [Node(f"{n:x}-{w}-{n:010}", f"{n:x}", w, n) for n, w in enumerate(weights)]
    return capacity, line


@given(lines(), st.data())
def test_what_is_admitted_stays_admitted_however_others_come_and_go(found, data) -> None:
    """Each client decides from the list it happens to see, and none may contradict another."""
    capacity, line = found
    inside = line[: admitted(line, capacity=capacity)]
    for _ in range(4):
        gone = data.draw(st.sets(st.sampled_from(line))) if line else set()
        line = [one for one in line if one not in gone]
        inside = [one for one in inside if one not in gone]

        now_inside = line[: admitted(line, capacity=capacity)]

        assert set(inside) <= set(now_inside)
        assert sum(one.weight for one in now_inside) <= capacity
        inside = now_inside


@given(lines())
def test_nobody_is_left_to_sleep(found) -> None:
    """Until one of those that somebody watches goes or is admitted, it cannot be its turn."""
    capacity, line = found
    inside = admitted(line, capacity=capacity)
    for place in range(inside, len(line)):
        watched = to_watch(line, place, inside=inside, capacity=capacity)
        assert watched

        # Whatever else goes: while the watched stay, and are not newly admitted, so does it.
        rest = [one for one in line[: place + 1] if one in watched or one is line[place]]
        if place > inside and capacity not in (1, ALL):
            assert list(watched) == [line[place - 1]]
            assert must_touch(line, place - 1, capacity=capacity)
        elif capacity in (1, ALL):
            assert admitted(rest, capacity=capacity) < len(rest)


@given(lines())
def test_a_release_wakes_one_waiter_of_a_mutex(found) -> None:
    capacity, line = found
    inside = admitted(line, capacity=capacity)
    if capacity != 1:
        return
    watched = [
        one
        for place in range(inside, len(line))
        for one in to_watch(line, place, inside=inside, capacity=1)
    ]

    assert len(watched) == len(set(watched))


def test_a_reader_watches_the_nearest_writer_in_front() -> None:
    weights = [1, ALL, 1, ALL, 1, 1]
    line = [Node(f"{n}", f"{n}", w, n) for n, w in enumerate(weights)]

    assert to_watch(line, 2, inside=1, capacity=ALL) == [line[1]]
    assert to_watch(line, 5, inside=1, capacity=ALL) == [line[3]]
    assert to_watch(line, 3, inside=1, capacity=ALL) == [line[2]]


def test_the_head_of_the_line_watches_every_holder_of_a_permit() -> None:
    line = [Node(f"{n}", f"{n}", 1, n) for n in range(6)]

    assert to_watch(line, 3, inside=3, capacity=3) == line[:3]
    assert to_watch(line, 4, inside=3, capacity=3) == [line[3]]
