"""A collection that usually has one element, and then is that element.

Python's garbage collector visits every live container again and again. With a list around each
handle, block and hold, a thousand holds would keep the collector busy. So a single element is
stored directly, and a container is created only for the second element.

Callers must assign what these functions return, as in `kept = added(kept, one)`.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

T = TypeVar("T")


class SeveralItems(dict[T, None]):
    """Two or more elements, in insertion order, with fast lookup among thousands."""

    __slots__ = ()


SmallSet: TypeAlias = T | SeveralItems[T] | None
"""Nothing, one element, or several; an element is never None, and is compared by identity."""


def added(some: SmallSet[T], one: T) -> SmallSet[T]:
    """Return the collection with one more element at its end."""
    if some is None:
        return one
    if isinstance(some, SeveralItems):
        some[one] = None
        return some
    return SeveralItems({some: None, one: None})


def without(some: SmallSet[T], one: T) -> SmallSet[T]:
    """Return the collection without this element; an element that is absent changes nothing."""
    if some is one:
        return None
    if isinstance(some, SeveralItems):
        some.pop(one, None)
        if len(some) <= 1:  # empty if an interrupt came between a return and its assignment
            return next(iter(some), None)
    return some


def each(some: SmallSet[T]) -> tuple[T, ...]:
    """Return the current elements."""
    if some is None:
        return ()
    return tuple(some) if isinstance(some, SeveralItems) else (some,)
