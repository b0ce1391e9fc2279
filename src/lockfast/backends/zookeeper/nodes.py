"""Names of locks and claims as names of nodes, and back.

    /<chroot>/<namespace>/<name>/<claim id>-<weight>-<sequence>

Any name becomes one component of a path, and different names become different ones. The
claim's id is in its node's name so that it is found again after a lost reply; the weight is,
so that one list of children says who is admitted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.model import Claim

LAST = 2**31 - 1
"""The server numbers children by a signed integer of 32 bits. At its end it gives the same
number again and again, or negative ones where several come at once."""

LATE = 7 * 2**28
"""From this number on a name's node is to be made anew, long before the end."""

_CLAIM = re.compile(r"(?P<claim>[0-9a-f]+)-(?P<weight>\d+)-(?P<sequence>-?\d{9,10})")


@dataclass(frozen=True, slots=True)
class Node:
    """One claim's node, as its name tells."""

    name: str
    claim_id: str
    weight: int
    sequence: int

    @property
    def is_late(self) -> bool:
        """Whether the name's node has had so many children that it should be made anew."""
        return not 0 <= self.sequence < LATE

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
    """Return the claims in order of arrival; ValueError names a child that is none of ours."""
    return sorted(map(node_of, children), key=attrgetter("sequence"))


def is_doubtful(line: Sequence[Node]) -> bool:
    """Whether the numbers do not say who came first: two may have the same."""
    return any(not 0 <= one.sequence < LAST for one in line)


def node_of(child: str) -> Node:
    """Return what a claim's node says by its name; ValueError names one that is none of ours."""
    found = _CLAIM.fullmatch(child)
    if found is None:
        raise ValueError(child)
    return Node(child, found["claim"], int(found["weight"]), int(found["sequence"]))
