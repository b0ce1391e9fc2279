"""Claims that are over although one of their requests may still be on its way; times are given.

Where a client's own requests all come by one place, the tombstones of its claims can stand there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.core.door import TOMBSTONE

if TYPE_CHECKING:
    from lockfast.model import Claim


class Tombs:
    """Remembers for a while that a claim is over, so that a late request for it gets nothing."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def bury(self, claim: Claim, *, now: float) -> None:
        """Know that the claim is over, and forget those of old."""
        self._until[claim.id] = now + max(claim.ttl, TOMBSTONE)
        while self._until[oldest := next(iter(self._until))] <= now:
            del self._until[oldest]

    def has(self, claim: Claim, *, now: float) -> bool:
        """Whether the claim was buried not long ago."""
        return self._until.get(claim.id, 0.0) > now
