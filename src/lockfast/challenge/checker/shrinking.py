"""The smallest part of a history that is still wrong, for a person to read.

To take a whole hold out of a history never makes a wrong one of a right one, so whatever is left
and still wrong is a proof (delta debugging, Zeller and Hildebrandt).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")


def smallest(items: Sequence[T], is_wrong: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a part of the items, in their order, that is wrong and of which none can be spared.

    The items together must be wrong.
    """
    left = list(items)
    parts = 2
    while len(left) > 1:
        size = -(-len(left) // parts)
        for start in range(0, len(left), size):
            rest = left[:start] + left[start + size :]
            if rest and is_wrong(rest):
                left, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(left))
    return left
