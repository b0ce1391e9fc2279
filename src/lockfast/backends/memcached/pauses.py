"""How long each claim waits before it asks again: nothing rings here, and there is no line.

Short at first, so that a lock which is held briefly is had soon, and longer from time to time, so
that many who wait for long do not keep the server busy. Whoever uses this holds a lock.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.core.backoff import delay

if TYPE_CHECKING:
    from lockfast.model import Claim, Held

FIRST = 0.002
MOST = 0.25


class Pauses:
    """How often each waiting claim has asked in vain."""

    def __init__(self) -> None:
        self._asked: dict[str, int] = {}

    def told(self, claim: Claim, held: Held, *, jitter: float) -> Held:
        """Return the answer with when to ask again: not after the item is gone in any case."""
        attempt = self._asked.get(claim.id, 0)
        self._asked[claim.id] = attempt + 1
        pause = delay(attempt, jitter=jitter, first=FIRST, most=MOST)
        ends_in = pause if held.retry_in is None else held.retry_in
        return replace(held, retry_in=min(pause, max(ends_in, FIRST)))

    def forget(self, claim: Claim) -> None:
        """Know nothing of a claim that waits no more."""
        self._asked.pop(claim.id, None)
