"""Who is admitted, and whom the others watch: decided from one list of children; pure.

Claims are in order of arrival and are admitted from the front while they fit, so what is
admitted stays so: others come behind it, and whoever leaves only makes room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.admission import admit
from holdfast.model import ALL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.zookeeper.nodes import Node


def admitted(line: Sequence[Node], *, capacity: int) -> int:
    """Return how many of the line are inside, from the front."""
    return len(admit(capacity=capacity, inside=(), line=line))


def to_watch(line: Sequence[Node], place: int, *, inside: int, capacity: int) -> Sequence[Node]:
    """Return those whose going, or touch, is the next that can matter to the one at `place`.

    One leaves and one is woken, however many wait. A mutex and a writer watch who is just in
    front. A reader watches the nearest writer in front: readers do not keep it out. Where
    permits are counted any holder's going may let the first of the line in, so it watches
    them all; each other watches who is just in front, which touches its own node when it is
    admitted and thereby makes its follower the first.
    """
    if capacity == 1 or line[place].weight == ALL:
        return line[place - 1 : place]
    if capacity == ALL:
        writers = [one for one in line[:place] if one.weight == ALL]
        return writers[-1:]
    return line[:inside] if place == inside else line[place - 1 : place]


def must_touch(line: Sequence[Node], place: int, *, capacity: int) -> bool:
    """Whether one that is admitted after a wait has to tell who is behind it."""
    return capacity not in (1, ALL) and place + 1 < len(line)


def must_step_back(line: Sequence[Node], place: int) -> bool:
    """Whether the one at `place` has to leave, so that the name's node can be made anew.

    A node with children cannot be deleted, and at a name that is always wanted there always
    are some. So once it is worn only the very first stays, and whoever releases it deletes
    the name's node too. That costs the order of those who wait then, and nothing else.
    """
    return place > 0 and line[place].is_late


def to_outwait(line: Sequence[Node], place: int) -> Sequence[Node]:
    """Return whose going one that stepped back waits for: the last who need not step back."""
    staying = [one for one in line[:place] if not one.is_late]
    return [staying[-1] if staying else line[0]]
