"""Decides when a node that may have forgotten something counts again. No I/O.

Two things could go wrong if the node counted at once. First, a lock that the node granted may still
be held. So the node has to wait as long as the longest lease may last, by the clocks of other
nodes, because the clock of a restarted node proves nothing. Second, a token that the node granted
might be granted again. So the node is given the largest token known to a set of nodes that overlaps
every majority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.redis.requests import SECOND
from lockfast.core.quorum import majority, nodes_to_end
from lockfast.core.renewal import CLOCK_DRIFT_FRACTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.redlock.node import Node


@dataclass(frozen=True, slots=True)
class Witness:
    """One node's report on a birth: how long the node has known it, and its largest token."""

    counts: bool
    known_for: float
    ceiling: int


@dataclass(frozen=True, slots=True)
class Admission:
    """Seconds until the node may count (0: now), and the token that the node must be given."""

    left: float
    least: int


def witness(reply: Sequence[Any]) -> Witness:
    """Read a node's reply."""
    _, counts, known_for, ceiling, _ = reply
    return Witness(bool(counts), known_for / SECOND, ceiling)


def admission(
    number: int, witnesses: Mapping[int, Witness], *, nodes: int, max_ttl: float
) -> Admission | None:
    """Return when node `number` counts again; None if too few nodes replied.

    While fewer than a majority of the nodes have forgotten, only nodes that count may supply the
    largest token, because each majority that granted a token includes a node that counts and
    remembers the token. If a majority has forgotten, as when all nodes are new, no node is sure to
    know the largest token, and the clock has to suffice.
    """
    own = witnesses.get(number)
    others = [one for other, one in witnesses.items() if other != number]
    if own is None:
        return None
    forgetful = sum(not one.counts for one in witnesses.values())
    needed = majority(nodes) - 1
    if forgetful < majority(nodes):
        others = [one for one in others if one.counts]
        needed = min(nodes_to_end(nodes), nodes - 1)
    if len(others) < needed:
        return None
    longest = sorted((one.known_for for one in others), reverse=True)[:needed]
    known_for = min([own.known_for, *longest])
    left = max_ttl * (1 + CLOCK_DRIFT_FRACTION) - known_for
    return Admission(max(0.0, left), max((one.ceiling for one in others), default=0))


def age(nodes: Sequence[Node]) -> float:
    """Return the shortest uptime of the nodes if all of them are new, otherwise 0.

    The nodes are new if no node that completed the handshake counts or remembers having counted.
    Then any hold on these nodes dates from before they were started.
    """
    greeted = [one for one in nodes if one.scripts is not None]
    if not are_new(nodes) or len(greeted) < majority(len(nodes)):
        return 0.0
    return min(one.uptime for one in greeted)


def are_new(nodes: Sequence[Node]) -> bool:
    """Return true if no node that completed the handshake counts or remembers having counted."""
    return not any(one.counts or one.origin != "new" for one in nodes if one.scripts is not None)
