"""What a client knows of the claims that it has in lines, where the store cannot ring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.model import Claim


@dataclass(slots=True)
class Waiting:
    """A claim that stands in line; `asked` counts how often since it is the first."""

    claim: Claim
    arrived: int
    is_first: bool = False
    asked: int = 0


class Sight(NamedTuple):
    """What a look shows of one that still waits.

    `may_move` says that a lease or a window at its name has ended, which nobody has noticed.
    """

    claim_id: str
    is_first: bool
    may_move: bool


def to_ring(waiting: Sequence[Waiting], sights: Iterable[Sight]) -> Iterator[str]:
    """Yield the claims that should ask again, by what a look showed of those that waited before."""
    seen = {one.claim_id: one for one in sights}
    told: set[str] = set()
    for one in sorted(waiting, key=lambda one: one.arrived):
        sight, name = seen.get(one.claim.id), one.claim.name
        if sight is None or sight.is_first:
            yield one.claim.id  # let in, turned away, or at the front
        elif sight.may_move and name not in told:
            told.add(name)  # one of ours is enough to move the line
            yield one.claim.id
