"""Converts the names of locks and claims to names of nodes, and back.

/<chroot>/<namespace>/<name>/<claim id>-<weight>-<sequence>

Any name becomes one path component, and different names become different components. The claim's id
is in its node's name so that the node is found again after a lost reply. The weight is in the name
so that one list of children shows which claims are admitted.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.backends.zookeeper.address import Address
    from lockfast.model import Claim

SEQUENCE_LAST = 2**31 - 1
"""The largest sequence number, because the server numbers children with a signed 32-bit integer. At
the end of that range the server repeats the same number, or assigns negative numbers if several
children are created at once."""

SEQUENCE_LATE = 7 * 2**28
"""From this sequence number on, long before the last one, a name's node should be recreated."""

_CLAIM = re.compile(r"(?P<claim>[0-9a-f]+)-(?P<weight>\d+)-(?P<sequence>-?\d{9,10})")


@dataclass(frozen=True, slots=True)
class ClaimNode:
    """The facts about a claim that its node's name contains."""

    name: str
    claim_id: str
    weight: int
    sequence: int

    @property
    def is_late(self) -> bool:
        """Whether the name's node has had so many children that it should be recreated."""
        return not 0 <= self.sequence < SEQUENCE_LATE

    @property
    def party(self) -> str | None:
        """None, because this store has no explicit owners."""
        return None


def component(text: str) -> str:
    """Return the text as one path component, from which `text_of` restores the text.

    Everything that ZooKeeper forbids or reserves is percent-encoded: slashes, control characters,
    the components `.` and `..`, and `zookeeper`, where the server keeps its own nodes.
    """
    found = quote(text, safe=":@+=,")
    if found in (".", "..", "zookeeper"):
        found = f"%{ord(found[0]):02X}{component(found[1:])}"
    return found


def text_of(component: str) -> str:
    """Return the text that `component` encoded; ValueError if it cannot be decoded."""
    return unquote(component, errors="strict")


def prefix(claim: Claim) -> str:
    """Return the name of the claim's node without the sequence, which the server adds."""
    return f"{claim.id}-{claim.weight}-"


def in_line(children: Iterable[str]) -> list[ClaimNode]:
    """Return the claims in order of arrival; raise ValueError for a child that is not ours."""
    return sorted(map(node_of, children), key=attrgetter("sequence"))


def is_doubtful(line: Sequence[ClaimNode]) -> bool:
    """Return whether the sequence numbers ran out and may no longer show the arrival order."""
    return any(not 0 <= one.sequence < SEQUENCE_LAST for one in line)


def node_of(child: str) -> ClaimNode:
    """Return the claim's node that has this name; raise ValueError if the node is not ours."""
    found = _CLAIM.fullmatch(child)
    if found is None:
        raise ValueError(child)
    return ClaimNode(child, found["claim"], int(found["weight"]), int(found["sequence"]))


# What a client remembers about the nodes of names.

NAME_NODES_MAX = 10_000
"""Maximum number of names whose nodes are remembered."""


class NameNode:
    """What is known about a name's node.

    `known` is the name's capacity and the number of the transaction that wrote it. They are one
    value, because several threads read and write them.
    """

    __slots__ = ("known", "path", "was_held")

    def __init__(self, path: str) -> None:
        self.path: str = path
        self.known: tuple[int, int] | None = None
        self.was_held: bool = False


class NameNodes:
    """The nodes of the names that this client has used, up to a limit, for all its sessions."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._doors: OrderedDict[str, NameNode] = OrderedDict()

    def of(self, name: str) -> NameNode:
        """Return the node of a name."""
        door = self._doors.get(name)
        if door is None:
            door = NameNode(f"{self.address.root}/{component(name)}")
            self._doors[name] = door
            if len(self._doors) > NAME_NODES_MAX:
                self._doors.popitem(last=False)
        return door


# Decides which claims of a name step back, so that the node of a name with a very long history can
# be recreated. Pure functions.
#
# A node with children cannot be deleted, and the node of a name in constant demand always has
# children. So once its sequence numbers run low, only the very first claim stays, and its release
# deletes the name's node too. The claims that wait at that time lose their order, and nothing else
# is lost.


def must_step_back(line: Sequence[ClaimNode], place: int) -> bool:
    """Return whether the claim at `place` has to leave so that its name's node can be recreated."""
    return place > 0 and line[place].is_late


def claim_to_wait_for(line: Sequence[ClaimNode], place: int) -> ClaimNode:
    """Return the claim for which a claim that stepped back waits: the last one that stays."""
    staying = [one for one in line[:place] if not one.is_late]
    return staying[-1] if staying else line[0]
