"""A collection that usually has one element behaves like a list without repeats."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lockfast.client._async.handle import SeveralItems, SmallSet, added, each, without


class Element:
    """Compared by identity, like all elements of such a collection."""


ELEMENTS = tuple(Element() for _ in range(4))
steps = st.lists(st.tuples(st.booleans(), st.sampled_from(ELEMENTS)))


@given(steps)
def test_it_holds_what_was_added_and_not_removed_in_the_order_of_adding(steps):
    expected: list[Element] = []
    some: SmallSet[Element] = None

    for is_added, one in steps:
        if is_added and one not in expected:
            expected.append(one)
            some = added(some, one)
        elif not is_added:
            expected = [other for other in expected if other is not one]
            some = without(some, one)

        assert each(some) == tuple(expected)


@given(steps)
def test_none_is_nothing_and_one_is_the_element_itself(steps):
    some: SmallSet[Element] = None

    for is_added, one in steps:
        if not is_added:
            some = without(some, one)
        elif one not in each(some):
            some = added(some, one)

        assert isinstance(some, SeveralItems) == (len(each(some)) > 1)
        assert each(some) or some is None


def test_a_removal_whose_result_was_never_assigned_leaves_nothing_behind():
    """An interrupt may strike before the assignment; then the container still has one element."""
    first, second = ELEMENTS[:2]
    some = added(added(None, first), second)
    without(some, second)

    assert each(some) == (first,)
    assert without(some, first) is None


def test_what_is_iterated_over_is_not_changed_by_what_happens_meanwhile():
    first, second, third = ELEMENTS[:3]
    some = added(added(None, first), second)

    seen = each(some)
    added(some, third)

    assert seen == (first, second)
