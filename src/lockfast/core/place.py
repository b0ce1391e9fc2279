"""One claim at a door, and where it stands."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.model import Claim


class Standing(enum.IntEnum):
    """Where a claim stands. The first three weigh on the capacity."""

    HOLDING = 0
    ADMITTED = 1  # by a release; holds for a window, and for its ttl once it has answered
    CLOSING = 2  # nobody holds, but lock_delay or min_hold keeps the weight closed
    WAITING = 3
    GONE = 4  # a tombstone: this claim id is over
    BROKEN = 5  # the same, by an operator's hand


# A member is looked up by way of Python code, which takes longer than what is done with it.
HOLDING, ADMITTED, CLOSING, WAITING, GONE, BROKEN = Standing


class Place:
    """One claim at the door."""

    __slots__ = ("arrived", "bell", "claim", "since", "standing", "token", "until")

    def __init__(
        self,
        claim: Claim,
        *,
        arrived: int,
        standing: Standing,
        until: float = 0.0,
        since: float = 0.0,
        token: int = 0,
        bell: str = "",
    ) -> None:
        self.claim: Claim = claim
        self.arrived: int = arrived
        self.standing: Standing = standing
        self.until: float = until
        self.since: float = since
        self.token: int = token
        self.bell: str = bell

    @property
    def weight(self) -> int:
        """The claim's weight, for admission."""
        return self.claim.weight

    @property
    def party(self) -> str | None:
        """The explicit owner; a hold that is over has none, so nobody re-enters it."""
        return None if self.standing is CLOSING else self.claim.party
