"""Names at which very many have been: who steps back, so that the node can be made anew; pure.

A node with children cannot be deleted, and at a name that is always wanted there always are
some. So once it is worn only the very first stays, and whoever releases it deletes the name's
node too. That costs the order of those who wait then, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.zookeeper.nodes import Node


def must_step_back(line: Sequence[Node], place: int) -> bool:
    """Whether the one at `place` has to leave, so that the name's node can be made anew."""
    return place > 0 and line[place].is_late


def to_outwait(line: Sequence[Node], place: int) -> Node:
    """Return whose going one that stepped back waits for: the last who need not step back."""
    staying = [one for one in line[:place] if not one.is_late]
    return staying[-1] if staying else line[0]
