"""Who of one client waits for which key; pure.

The server knows the session and none of its claims, and would let a second one in: locks of a
session are re-entrant. So the claims of a client stand in lines of its own, and the first in
each asks the server for all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable


class LocalLines:
    """The waiting claims of one client, by key, in order of arrival."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, dict[str, int]] = {}
        """Each with how often it has asked."""

    def join(self, key: Hashable, claim_id: str) -> bool:
        """Let a claim stand in line, at its end if it is new; whether it is the first."""
        line = self._lines.setdefault(key, {})
        line.setdefault(claim_id, 0)
        return next(iter(line)) == claim_id

    def asked(self, key: Hashable, claim_id: str) -> int:
        """Know that the claim has asked in vain once more; return how often before."""
        line = self._lines.get(key, {})
        before = line.get(claim_id, 0)
        if claim_id in line:
            line[claim_id] = before + 1
        return before

    def leave(self, key: Hashable, claim_id: str) -> None:
        """Forget a claim."""
        line = self._lines.get(key)
        if line is not None:
            line.pop(claim_id, None)
            if not line:
                self._lines.pop(key, None)

    def first(self, key: Hashable) -> str | None:
        """Return who is the first at this key."""
        return next(iter(self._lines.get(key, ())), None)
