"""Who may pass the door: one rule for mutex, read-write lock and semaphore.

Holders come first and are never un-admitted. Then, from the front of the line, each
waiting claim is admitted while its weight still fits the capacity. The first that does
not fit closes the door for all behind it, so that nobody is starved by smaller claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable


class Weighed(Protocol):
    """What admission needs to know of a claim."""

    @property
    def weight(self) -> int:
        """How much of the capacity it takes."""
        ...

    @property
    def party(self) -> str | None:
        """The explicit owner it shares a hold with, if any."""
        ...


W = TypeVar("W", bound=Weighed)


def occupied(inside: Iterable[Weighed]) -> int:
    """Return the weight inside; the claims of one party are one hold and count once."""
    total = 0
    parties: dict[str, int] = {}
    for one in inside:
        if one.party is None:
            total += one.weight
        else:
            parties[one.party] = max(parties.get(one.party, 0), one.weight)
    return total + sum(parties.values())


def admit(*, capacity: int, inside: Iterable[Weighed], line: Iterable[W]) -> list[W]:
    """Return those of the line that may pass now, in their order.

    A claim whose party is inside passes wherever it stands: it adds no weight, and the
    party that waits for itself would wait for ever.
    """
    inside = list(inside)
    free = capacity - occupied(inside)
    parties = {one.party for one in inside if one.party is not None}
    admitted: list[W] = []
    is_open = True
    for claim in line:
        if claim.party is not None and claim.party in parties:
            admitted.append(claim)
        elif is_open and claim.weight <= free:
            free -= claim.weight
            admitted.append(claim)
            if claim.party is not None:
                parties.add(claim.party)
        else:
            is_open = False
            if not parties:
                break
    return admitted
