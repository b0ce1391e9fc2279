"""What a handover costs with few and with very many waiters, counted and not timed."""

from __future__ import annotations

import os
from typing import Any, Protocol

from lockfast import Backend
from lockfast.model import Claim, Grant, Held
from lockfast.runtime.clock import Clock

OWNER = '{"host": "here", "pid": 1, "label": "", "context": ""}'
PATIENCE = 20.0
REAL_WAITERS = 10
"""Number of waiters that join the line by a request; the rest are written to the store directly."""

TURNS = 5


class Counted(Protocol):
    """A store that can report how much it has read."""

    backend: Backend

    def lengthen(self, name: str, by: int) -> None:
        """Add this many waiters at the end of a line."""

    def read(self) -> float:
        """Return how much has been read so far."""


class LongLine:
    """A name that is held, with this many waiters."""

    def __init__(self, store: Counted, waiters: int) -> None:
        self._backend: Any = store.backend
        self._clock = Clock()
        self.name = f"line-{os.urandom(4).hex()}"
        self._turn = 0
        self._held = self._ask(0)
        for number in range(1, REAL_WAITERS + 1):
            self._ask(number)
        if waiters > REAL_WAITERS:
            store.lengthen(self.name, waiters - REAL_WAITERS)

    def _ask(self, number: int) -> Any:
        claim = Claim(
            f"{self.name} {number}", self.name, f"client {number}", OWNER, 1, 1, ttl=300.0
        )
        answer = self._backend.try_acquire(claim, deadline=self._clock.now() + PATIENCE)
        assert isinstance(answer, Grant if number == self._turn else Held)
        return answer

    def hand_over(self) -> None:
        """Release the hold, and let the next claim in line have the name."""
        deadline = self._clock.now() + PATIENCE
        assert self._backend.release(self._held, deadline=deadline, tombstone=False)
        self._turn += 1
        self._held = self._ask(self._turn)


def cost_of_a_hand_over(store: Counted, waiters: int) -> float:
    """Return how much one handover reads with this many waiters."""
    line = LongLine(store, waiters)
    line.hand_over()
    before = store.read()
    for _ in range(TURNS):
        line.hand_over()
    return (store.read() - before) / TURNS


class LongLines:
    """Ten thousand claims may wait: only the part of the line that can matter is read."""

    def test_a_hand_over_costs_the_same_however_many_wait(self, store):
        few, many, very_many = (cost_of_a_hand_over(store, one) for one in (10, 1000, 10_000))

        assert many <= 1.2 * few
        assert very_many <= 1.2 * min(few, many)
