"""The subscription of the asyncio flavour: a connection of its own, which the loop reads."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from lockfast.backends.postgresql.subscription.proving import (
    PROVEN_WITHIN,
    given_up,
    listen_to,
    no_longer,
    unproven,
)
from lockfast.backends.sql.steps import Ask
from lockfast.runtime.listening import ReadByLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.postgresql.link.aio import Link
    from lockfast.runtime.clock import Clock

__all__ = ["Subscription"]


class Subscription(ReadByLoop):
    """Hears one channel."""

    def __init__(
        self, link: Link, channel: str, hear: Callable[[str], None], *, clock: Clock
    ) -> None:
        super().__init__(link.lost, clock=clock)
        self.proof: str = os.urandom(8).hex()
        self._link = link
        self._channel = channel
        self._hear = hear
        self._proven = asyncio.get_running_loop().create_future()
        self._is_given_up = False

    # -- beginning ---------------------------------------------------------------------

    async def begin(self, *, deadline: float) -> None:
        """Hear the channel, if the server's words come through: see `prove`."""
        self._link.farewell = [Ask(no_longer(self._channel))]
        self._link.hear = self._heard
        await self._link.exchange([Ask(listen_to(self._channel))], deadline=deadline)

    async def prove(self, *, deadline: float) -> None:
        """Return when the proof was heard that another connection has sent."""
        left = min(PROVEN_WITHIN, deadline - self._clock.now())
        done, _ = await asyncio.wait(
            [self._proven, self._link.lost],
            timeout=max(0.0, left),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._is_given_up:
            raise given_up(where=self._link.where)
        if self._proven not in done:
            raise unproven(where=self._link.where)

    def give_up(self) -> None:
        """Let `prove` fail at once."""
        self._is_given_up = True
        self._link.close()

    def _heard(self, message: str) -> None:
        if message != self.proof:
            self._hear(message)
        elif not self._proven.done():
            self._proven.set_result(None)

    # -- closing -----------------------------------------------------------------------

    async def close(self) -> None:
        """Hear no more."""
        self._link.close()

    def disinherit(self) -> None:
        """Leave the connection to the parent process, which still uses it."""
        self._link.disinherit()
