"""Which claims may pass the door, by one rule for mutex, read-write lock and semaphore.

Holders are counted first, and keep their admission. Then, from the front of the line, each waiting
claim is admitted while its weight still fits the capacity. The first claim that does not fit blocks
all claims behind it, so that smaller claims cannot starve it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.model import Inspection


class Weighed(Protocol):
    """What admission needs to know about a claim."""

    @property
    def weight(self) -> int:
        """How much of the capacity the claim takes."""
        ...

    @property
    def party(self) -> str | None:
        """The explicit owner, if any; all claims of one explicit owner share a hold."""
        ...


W = TypeVar("W", bound=Weighed)


def _weights(inside: Iterable[Weighed]) -> tuple[int, dict[str, int]]:
    alone = 0
    parties: dict[str, int] = {}
    for one in inside:
        if one.party is None:
            alone += one.weight
        else:
            parties[one.party] = max(parties.get(one.party, 0), one.weight)
    return alone, parties


def admit(*, capacity: int, inside: Iterable[Weighed], line: Iterable[W]) -> list[W]:
    """Return the claims in the line that may pass now, in order.

    If the explicit owner of a claim already holds the name, the claim adds only the weight by which
    it exceeds the owner's present weight. A claim that adds nothing passes wherever it is in line,
    because an owner that waited for itself would wait for ever.
    """
    alone, parties = _weights(inside)
    free = capacity - alone - sum(parties.values())
    admitted: list[W] = []
    is_open = True
    for claim in line:
        has = 0 if claim.party is None else parties.get(claim.party, 0)
        more = max(0, claim.weight - has)
        if more == 0 or (is_open and more <= free):
            free -= more
            admitted.append(claim)
            if claim.party is not None:
                parties[claim.party] = has + more
        else:
            is_open = False
            if not parties:
                break
    return admitted


def would_wait(seen: Inspection, *, weight: int, capacity: int) -> bool:
    """Return whether a new caller would have to wait.

    Claims in line go first. A name that is in use with another capacity admits no new caller.
    """
    if seen.line:
        return True
    held, closed = (one.weight for one in seen.holders), (one.weight for one in seen.closing)
    inside = sum(held) + sum(closed)
    if inside and seen.capacity != capacity:
        return True
    return inside + weight > capacity
