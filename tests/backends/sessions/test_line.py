"""Which claims are admitted and which they watch, decided from one listing of the line."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from lockfast.backends.sessions.line import LineView, admitted, must_touch, to_watch
from lockfast.model import ALL


@dataclass(frozen=True)
class Standing:
    """One claim in the line."""

    name: str
    weight: int
    party: str | None = None


capacities = st.sampled_from([1, 2, 3, 7, ALL])


@st.composite
def lines(draw) -> tuple[int, list[Standing]]:
    capacity = draw(capacities)
    largest = st.sampled_from([1, ALL]) if capacity == ALL else st.integers(1, capacity)
    weights = draw(st.lists(largest, max_size=12))
    line = [Standing(f"{n}", w) for n, w in enumerate(weights)]
    return capacity, line


@given(lines(), st.data())
def test_what_is_admitted_stays_admitted_however_others_come_and_go(found, data) -> None:
    """Clients decide from different views of the line, and must not contradict one another."""
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
    """A waiter gets its turn only after a claim that it watches has left or was admitted."""
    capacity, line = found
    inside = admitted(line, capacity=capacity)
    for place in range(inside, len(line)):
        watched = to_watch(line, place, inside=inside, capacity=capacity)
        assert watched

        # Whichever other claims leave: while the watched claims stay and are not newly admitted,
        # the waiter has to wait.
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
    line = [Standing(f"{n}", w) for n, w in enumerate(weights)]

    assert to_watch(line, 2, inside=1, capacity=ALL) == [line[1]]
    assert to_watch(line, 5, inside=1, capacity=ALL) == [line[3]]
    assert to_watch(line, 3, inside=1, capacity=ALL) == [line[2]]


def test_the_head_of_the_line_watches_every_holder_of_a_permit() -> None:
    line = [Standing(f"{n}", 1) for n in range(6)]

    assert to_watch(line, 3, inside=3, capacity=3) == line[:3]
    assert to_watch(line, 4, inside=3, capacity=3) == [line[3]]


def test_one_that_had_to_leave_the_line_awaits_who_it_was_told() -> None:
    """A claim that stepped back for another claim watches that claim, and is not admitted."""
    entries = [Standing(f"{n}", 1) for n in range(3)]
    line = LineView(entries, 3, prefix="/door/", number=2)
    assert line.is_admitted

    line.stepped_back_for = entries[0]

    assert not line.is_admitted
    assert line.to_watch() == [entries[0]]
    assert line.key_of(entries[0]) == "/door/0"
    assert line.place == 1


def test_one_that_is_not_in_the_line_has_no_place_and_watches_nobody() -> None:
    line = LineView([Standing("a", 1)], 1, prefix="")

    assert line.place is None
    assert not line.is_admitted
    assert not line.to_watch()
    assert not line.must_touch()
