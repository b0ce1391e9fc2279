"""One admission rule for mutex, read-write lock and semaphore."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from occupancy import occupied

from lockfast.core.admission import admit
from lockfast.model import ALL


@dataclass(frozen=True)
class One:
    weight: int
    party: str | None = None


claims = st.builds(
    One, weight=st.integers(1, 5), party=st.sampled_from([None, None, None, "red", "blue"])
)
lines = st.lists(claims, max_size=12)


@given(capacity=st.integers(1, 8), inside=lines, line=lines)
def test_never_more_inside_than_fit(capacity: int, inside: list[One], line: list[One]) -> None:
    """An admitted claim fits, or adds no weight because its owner is already inside."""
    admitted = admit(capacity=capacity, inside=inside, line=line)

    assert occupied([*inside, *admitted]) <= max(capacity, occupied(inside))


@given(capacity=st.integers(1, 8), line=st.lists(st.builds(One, weight=st.integers(1, 5))))
def test_the_first_that_does_not_fit_closes_the_door(capacity: int, line: list[One]) -> None:
    """Without explicit owners, the admitted claims are the longest prefix of the line that fits."""
    admitted = admit(capacity=capacity, inside=[], line=line)

    assert admitted == line[: len(admitted)]
    assert occupied(admitted) <= capacity
    if len(admitted) < len(line):
        assert occupied(line[: len(admitted) + 1]) > capacity


@given(capacity=st.integers(1, 8), inside=lines, line=lines)
def test_whoever_is_of_a_party_inside_passes(
    capacity: int, inside: list[One], line: list[One]
) -> None:
    """An owner that had to wait for itself would wait for ever."""
    admitted = admit(capacity=capacity, inside=inside, line=line)

    for one in line:
        kin = [other for other in inside if one.party and other.party == one.party]
        if kin and one.weight <= occupied(kin):
            assert one in admitted


def test_a_read_write_lock_is_a_capacity_that_only_a_writer_fills() -> None:
    read, write = One(1), One(ALL)

    assert admit(capacity=ALL, inside=[read], line=[read, write, read]) == [read]
    assert admit(capacity=ALL, inside=[], line=[write, read]) == [write]
    assert admit(capacity=ALL, inside=[write], line=[read]) == []
