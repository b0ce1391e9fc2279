"""One connection that several tasks want to hear: the loop reads it, and tells as it comes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.runtime.aio import Event
    from lockfast.runtime.clock import Clock


LONGEST = 3600.0
"""No timer is longer: some clocks cannot count to infinity."""


class ReadByLoop:
    """Hears one connection, until the future says that it is lost; `reading` has its twin."""

    def __init__(self, lost: asyncio.Future[None], *, clock: Clock) -> None:
        self._lost = lost
        self._clock = clock
        self._kicked = asyncio.Event()

    async def listen(self, *, until: float) -> bool:
        """Return then, or when kicked; false once the connection is lost.

        What is heard is told as it comes, by the loop itself.
        """
        self._kicked.clear()
        self._lost.add_done_callback(self._kick)
        try:
            while not (self._lost.done() or self._kicked.is_set()):
                left = min(until - self._clock.now(), self._clock.longest_sleep)
                if left <= 0:
                    break
                try:
                    async with asyncio.timeout(left):
                        await self._kicked.wait()
                except TimeoutError:
                    continue
        finally:
            self._lost.remove_done_callback(self._kick)
        return not self._lost.done()

    def _kick(self, _: object) -> None:
        self._kicked.set()

    def kick(self) -> None:
        """Let `listen` return."""
        self._kicked.set()

    async def attend(self, event: Event, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed; the loop reads for all.

        Nobody who waits looks at the clock now and then: thousands of them would keep the
        loop busy with that. Whoever listens does, and rings all when the machine has slept.
        """
        while not event.is_set():
            left = deadline - self._clock.now()
            if left <= 0:
                return
            await event.wait(min(left, LONGEST))

    def nudge(self) -> None:
        """Do nothing: whoever waits sees by itself that its event is set."""
