"""The subscription of the asyncio flavour: it shares the connection, and the loop reads for all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.backends.redis.connection.aio import Link
    from holdfast.runtime.aio import Event
    from holdfast.runtime.clock import Clock

__all__ = ["Subscription"]

LONGEST = 3600.0
"""No timer is longer: some clocks cannot count to infinity."""


class Subscription:
    """Hears one channel on the connection that carries everything else too."""

    def __init__(self, link: Link, channel: bytes, *, clock: Clock) -> None:
        self._link = link
        self._channel = channel
        self._clock = clock
        self._kicked = asyncio.Event()

    async def listen(self, *, until: float) -> bool:
        """Return then, or when kicked; false once the link is broken.

        What is heard is told as it comes, by the loop itself.
        """
        self._kicked.clear()
        link = self._link
        link.lost.add_done_callback(self._kick)
        try:
            while link.is_open and not self._kicked.is_set():
                left = min(until - self._clock.now(), self._clock.longest_sleep)
                if left <= 0:
                    break
                try:
                    async with asyncio.timeout(left):
                        await self._kicked.wait()
                except TimeoutError:
                    continue
        finally:
            link.lost.remove_done_callback(self._kick)
        return link.is_open

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

    async def close(self) -> None:
        """Hear no more."""
        self._link.unsubscribe(self._channel)
