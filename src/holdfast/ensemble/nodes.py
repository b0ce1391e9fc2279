"""Names of locks and claims as names of nodes, and back.

    /<chroot>/<namespace>/<name>/<claim id>-<weight>-<sequence>

Any name becomes one component of a path, and different names become different ones. The
claim's id is in its node's name so that it is found again after a lost reply; the weight is,
so that one list of children says who is admitted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.model import Claim

HALF = 2**31
"""The server numbers children by a signed integer of 32 bits, which overflows."""

_CLAIM = re.compile(r"(?P<claim>[0-9a-f]+)-(?P<weight>\d+)-(?P<sequence>-?\d{9,10})")


@dataclass(frozen=True, slots=True)
class Node:
    """One claim's node, as its name tells."""

    name: str
    claim: str
    weight: int
    sequence: int

    @property
    def party(self) -> str | None:
        """None: there are no explicit owners here."""
        return None


def component(text: str) -> str:
    """Return the text as one component of a path, to be read back by `text_of`.

    Whatever ZooKeeper forbids or reserves is written as percent signs: slashes, control
    characters, `.` and `..` alone, and `zookeeper`, where the server keeps its own.
    """
    found = quote(text, safe=":@+=,")
    if found in (".", "..", "zookeeper"):
        found = f"%{ord(found[0]):02X}{component(found[1:])}"
    return found


def text_of(component: str) -> str:
    """Return what `component` hid; ValueError if it did not make this."""
    return unquote(component, errors="strict")


def prefix(claim: Claim) -> str:
    """Return the name of the claim's node without the sequence, which the server adds."""
    return f"{claim.id}-{claim.weight}-"


def in_line(children: Iterable[str]) -> list[Node]:
    """Return the claims in order of arrival; ValueError names a child that is none of ours.

    The sequence overflows to the negative after two thousand million claims of one name.
    Those alive together are never that far apart, so where both ends are seen the negative
    ones are the later.
    """
    line = [_node(child) for child in children]
    line.sort(key=_sequence)
    if line and line[-1].sequence - line[0].sequence >= HALF:
        line.sort(key=lambda node: node.sequence % (2 * HALF))
    return line


def _sequence(node: Node) -> int:
    return node.sequence


def _node(child: str) -> Node:
    found = _CLAIM.fullmatch(child)
    if found is None:
        raise ValueError(child)
    return Node(child, found["claim"], int(found["weight"]), int(found["sequence"]))
