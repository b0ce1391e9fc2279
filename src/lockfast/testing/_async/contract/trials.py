"""Trials of laws that speak of time: one during which the machine stood still says nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import pytest

from lockfast.errors import LockError
from lockfast.testing import aio as runner
from lockfast.testing._async.contract.subject import AsyncSubject

if TYPE_CHECKING:
    from collections.abc import Callable

TRIALS = 5
"""With twice the ttl each time, the last bears a machine that stands still for seconds."""

PAUSE = 0.02
"""Between two questions of the witness."""


class AsyncTrials(AsyncSubject):
    """A subject whose laws may be tried anew when the machine gave them no chance."""

    async def undisturbed(
        self, trial: Callable[[str, float], Any], *, ttl: float, bears: float | None = None
    ) -> None:
        """Run the trial of a law; let it pass, or fail while nothing stood still.

        A machine, or the store's disk, may stand still for longer than a short ttl, and a lease
        then ends as it must. A witness asks the store all the while. If it was kept waiting for
        longer than the trial `bears`, a third of the ttl if nothing else is said, a failure tells
        nothing of the store: the law is tried anew, on another name and with twice the ttl. What
        fails while the witness is served fails at once.
        """
        for number in range(TRIALS):
            is_last = number == TRIALS - 1
            async with AsyncWitness(self) as witness:
                try:
                    await trial(f"door {number}", ttl)
                except (Exception, pytest.fail.Exception):
                    if is_last or witness.longest_wait <= (bears or ttl / 3):
                        raise
                else:
                    return
            ttl *= 2


class AsyncWitness:
    """Asks the store for as long as a block runs, and knows how long it was kept waiting."""

    def __init__(self, subject: AsyncSubject) -> None:
        self._subject = subject
        self._backend = subject.raw()
        self._longest = 0.0
        self._asked_at = 0.0
        self._is_over = False

    @property
    def longest_wait(self) -> float:
        """How much later than it should it went on, at most; also if it still waits."""
        return max(self._longest, self._subject.clock.now() - self._asked_at - PAUSE)

    async def __aenter__(self) -> Self:
        await self._ask()  # connected: that may take a while on any machine
        self._asked_at = self._subject.clock.now()
        self._looking = runner.start(self._look_on)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        await self._looking.result()

    async def _look_on(self) -> None:
        while not self._is_over:
            await self._ask()
            await self._subject.pass_time(PAUSE)
            self._longest = self.longest_wait
            self._asked_at = self._subject.clock.now()

    async def _ask(self) -> None:
        with suppress(LockError):  # it was kept waiting, which is all that it tells
            await self._backend.inspect("witness", deadline=self._subject.soon())
