"""What a client knows of the names' nodes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from lockfast.backends.zookeeper.nodes import component

if TYPE_CHECKING:
    from lockfast.backends.zookeeper.address import Address

DOORS = 10_000
"""Of so many names it is remembered that their nodes are there."""


class NameNode:
    """What is known of a name's node.

    `known` is its capacity and the change that wrote it; one value, since threads share it.
    """

    __slots__ = ("known", "path", "was_held")

    def __init__(self, path: str) -> None:
        self.path: str = path
        self.known: tuple[int, int] | None = None
        self.was_held: bool = False


class NameNodes:
    """The names' nodes that this client has met, the last used ones; shared by its sessions."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._doors: OrderedDict[str, NameNode] = OrderedDict()

    def of(self, name: str) -> NameNode:
        """Return the door of a name."""
        door = self._doors.get(name)
        if door is None:
            door = NameNode(f"{self.address.root}/{component(name)}")
            self._doors[name] = door
            if len(self._doors) > DOORS:
                self._doors.popitem(last=False)
        return door
