"""A collection that has one element most of the time, and then is that element.

Python's garbage collector looks at every container that is alive, again and again: with a list
around each handle, block and hold, a thousand holds keep it busy. So the first element stands by
itself where a list would be kept, and a container is made for the second.

Whoever keeps such a collection assigns what these functions return: `kept = added(kept, one)`.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

T = TypeVar("T")


class Several(dict[T, None]):
    """More than one, in the order of adding; one of many thousands is found at once."""

    __slots__ = ()


MostlyOne: TypeAlias = T | Several[T] | None
"""Nothing, one element, or several; an element is never None, and is known by identity."""


def added(some: MostlyOne[T], one: T) -> MostlyOne[T]:
    """Return the collection with a further element behind the others."""
    if some is None:
        return one
    if isinstance(some, Several):
        some[one] = None
        return some
    return Several({some: None, one: None})


def without(some: MostlyOne[T], one: T) -> MostlyOne[T]:
    """Return the collection without an element, if it is there."""
    if some is one:
        return None
    if isinstance(some, Several):
        some.pop(one, None)
        if len(some) <= 1:  # none, where an interrupt came between a return and its assignment
            return next(iter(some), None)
    return some


def each(some: MostlyOne[T]) -> tuple[T, ...]:
    """Return the elements as they are now."""
    if some is None:
        return ()
    return tuple(some) if isinstance(some, Several) else (some,)
