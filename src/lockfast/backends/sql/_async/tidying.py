"""Giving back connections that nobody has used for a while: others need them too.

And sweeping idle names, beside the calls of the client: none of them waits for it, and none that
was answered is told otherwise because of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.sql._async.background import AsyncBackground
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.backends.sql._async.background import AsyncRun
    from lockfast.backends.sql._async.sweeping import AsyncSweeper
    from lockfast.backends.sql._async.wire import AsyncWire
    from lockfast.runtime.clock import Clock

BUSY = 10.0
"""While all connections are in use, one looks again after so long."""

SOONEST = 1.0
LONGEST_SWEEP = 2.0


class AsyncTidying:
    """Runs while there are connections."""

    def __init__(self, wire: AsyncWire[Any], sweeper: AsyncSweeper, clock: Clock) -> None:
        self._wire = wire
        self._sweeper = sweeper
        self._clock = clock
        self._background = AsyncBackground(self._run, name="lockfast-tidying", clock=clock)

    def begin(self) -> None:
        """See to it that somebody looks, from the first use of a connection on."""
        self._background.is_running()

    async def stop(self) -> None:
        """Look no more."""
        await self._background.stop()

    def after_fork_in_child(self) -> None:
        """Nothing of the parent's runs here."""
        self._background.after_fork_in_child()

    async def _run(self, run: AsyncRun) -> None:
        while self._background.is_wanted(run):
            # First the pause: it is begun before there is a connection.
            now, due_at = self._clock.now(), self._wire.give_back()
            until = now + BUSY if due_at is None else max(due_at, now + SOONEST)
            await runtime.wait_for(run.stopping, deadline=until, clock=self._clock)
            if self._background.is_wanted(run):
                await self._sweeper.sweep(deadline=self._clock.now() + LONGEST_SWEEP)
            self._wire.give_back()
            if not self._wire.connections:
                break
        was_wanted = self._background.is_wanted(run)
        self._background.leave(run)
        if was_wanted and self._wire.connections:
            self.begin()  # made between the last look and now, by one who relied on this run
