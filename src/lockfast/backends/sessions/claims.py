"""One claim that a session carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.model import Claim

NEVER = float("inf")


class CarriedClaim:
    """What is known of one claim: what stands for it in the store, once that was told."""

    __slots__ = ("claim", "granted_at", "is_seen", "is_unanswered", "key", "token")

    def __init__(self, claim: Claim) -> None:
        self.claim: Claim = claim
        self.is_unanswered: bool = False
        """Whether its arrival was sent, and nobody knows what became of it."""
        self.begin_anew()

    def begin_anew(self) -> None:
        """Stand nowhere, as in the beginning: what stood for it is gone."""
        self.key: str | None = None
        self.token: int = 0
        self.granted_at: float = NEVER
        self.is_seen: bool = False
        """Whether it was there at the last look, and a watch would tell of its end."""

    def stands_at(self, key: str, *, token: int) -> None:
        """Be told of; in one step, as an interrupt in between would leave it to nobody."""
        self.key, self.token, self.is_unanswered = key, token, False
