"""Names are encoded as nodes, and nodes are decoded to names and claims."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.backends.zookeeper.nodes import (
    SEQUENCE_LAST,
    SEQUENCE_LATE,
    component,
    in_line,
    is_doubtful,
    node_of,
    text_of,
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(names)
def test_a_name_is_read_back(name: str) -> None:
    found = component(name)

    assert text_of(found) == name
    assert found not in (".", "..", "zookeeper")
    assert "/" not in found
    assert found.isascii()
    assert found.isprintable()


@given(names, names)
def test_two_names_are_two_nodes(one: str, other: str) -> None:
    assert (component(one) == component(other)) == (one == other)


@pytest.mark.parametrize("name", [".", "..", "zookeeper", "/", "%2E", "a/../b", "\0"])
def test_what_zookeeper_reserves_can_be_a_name(name: str) -> None:
    assert text_of(component(name)) == name
    assert component(name) not in (".", "..", "zookeeper", name)


def test_the_line_is_in_order_of_arrival_whatever_the_claims_are_called() -> None:
    line = in_line(["ff-1-0000000012", "00-2147483647-0000000013", "aa-3-0000000002"])

    assert [one.sequence for one in line] == [2, 12, 13]
    assert [one.weight for one in line] == [3, 1, 2147483647]


def test_numbers_at_their_end_leave_the_order_in_doubt() -> None:
    """At its end the server repeats the last number for later claims, or gives negative numbers."""
    assert not is_doubtful(in_line(["a-1-0000000001", "b-1-2147483646"]))
    assert is_doubtful(in_line(["a-1-2147483647", "b-1-2147483646"]))
    assert is_doubtful(in_line(["a-1--2147483648", "b-1-0000000001"]))


def test_a_node_is_late_long_before_the_numbers_end() -> None:
    assert not node_of("a-1-0000000001").is_late
    assert SEQUENCE_LATE < SEQUENCE_LAST - 2**27
    assert node_of(f"a-1-{SEQUENCE_LATE:010d}").is_late
    assert node_of("a-1--2147483648").is_late


@pytest.mark.parametrize("child", ["lock-0000000001", "aa-1-x", "aa-0000000001"])
def test_a_foreign_child_is_named(child: str) -> None:
    with pytest.raises(ValueError, match=child):
        in_line(["aa-1-0000000001", child])
