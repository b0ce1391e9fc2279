"""When a node that may have forgotten something counts again; pure.

Two things could go wrong. A lock that it granted may still be held: so as much time passes as the
longest lease lasts, by the clocks of other nodes, since the clock of a node that was restarted
proves nothing. And a token that it gave may be given again: so it is taught the largest that
those know of whom one was in every majority.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.redis.requests import SECOND
from lockfast.core.quorum import enough_to_end, majority
from lockfast.core.trust import DRIFT_RATIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.redlock.node import Node


@dataclass(frozen=True, slots=True)
class Witness:
    """What one node says: for how long it has known of the birth, and its largest token."""

    counts: bool
    known_for: float
    ceiling: int


@dataclass(frozen=True, slots=True)
class Admission:
    """In how many seconds the node may count, and what it must be taught; now if that is 0."""

    left: float
    least: int


def witness(reply: Sequence[Any]) -> Witness:
    """Read what a node answered."""
    _, counts, known_for, ceiling, _ = reply
    return Witness(bool(counts), known_for / SECOND, ceiling)


def admission(
    number: int, witnesses: Mapping[int, Witness], *, nodes: int, max_ttl: float
) -> Admission | None:
    """Return when that node counts again; None where too few were heard to tell.

    While fewer than a majority of the nodes forgot, only those that count can teach: of each
    majority that gave a token one remembers it. Where a majority has forgotten, as when all nodes
    are new, nobody can, and the clock has to do.
    """
    own = witnesses.get(number)
    others = [one for other, one in witnesses.items() if other != number]
    if own is None:
        return None
    forgetful = sum(not one.counts for one in witnesses.values())
    needed = majority(nodes) - 1
    if forgetful < majority(nodes):
        others = [one for one in others if one.counts]
        needed = min(enough_to_end(nodes), nodes - 1)
    if len(others) < needed:
        return None
    longest = sorted((one.known_for for one in others), reverse=True)[:needed]
    known_for = min([own.known_for, *longest])
    left = max_ttl * (1 + DRIFT_RATIO) - known_for
    return Admission(max(0.0, left), max((one.ceiling for one in others), default=0))


def age(nodes: Sequence[Node]) -> float:
    """Return for how long nodes have been there that nobody has used before, at the least.

    Only where none of those that were greeted counts, or remembers that it did: then whoever
    held something on them did so before they were started.
    """
    greeted = [one for one in nodes if one.scripts is not None]
    if not are_new(nodes) or len(greeted) < majority(len(nodes)):
        return 0.0
    return min(one.uptime for one in greeted)


def are_new(nodes: Sequence[Node]) -> bool:
    """Whether none of those that were greeted counts, or remembers that it did."""
    return not any(one.counts or one.origin != "new" for one in nodes if one.scripts is not None)
