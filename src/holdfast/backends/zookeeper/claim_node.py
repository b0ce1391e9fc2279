"""One claim's place in the line of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.model import Claim

NEVER = float("inf")


class ClaimNode:
    """What is known of one claim: its node, once the server has told it."""

    __slots__ = ("claim", "door", "granted_at", "is_seen", "is_unanswered", "node", "token")

    def __init__(self, claim: Claim, door: str) -> None:
        self.claim = claim
        self.door = door
        self.node: str | None = None
        self.token = 0
        self.granted_at = NEVER
        self.is_unanswered = False
        """Whether its create was sent, and nobody knows what became of it."""
        self.is_seen = False
        """Whether the node was there at the last look, and a watch would tell of its end."""

    @property
    def path(self) -> str:
        """Where the node is."""
        return f"{self.door}/{self.node}"
