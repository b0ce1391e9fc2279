"""One connection that several tasks listen to: the loop reads it and delivers the messages."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.runtime.aio import WakeEvent
    from lockfast.runtime.clock import Clock


LONGEST_TIMER_SECONDS = 3600.0
"""Longest timer, in seconds, because some clocks cannot count to infinity."""


class Listener:
    """Listens to one connection until it is lost; `listener_threads` has the counterpart."""

    def __init__(self, lost: asyncio.Future[None], *, clock: Clock) -> None:
        self._lost = lost
        self._clock = clock
        self._interrupted = asyncio.Event()

    async def listen(self, *, until: float) -> bool:
        """Return at `until` or after `interrupt`; false once the connection is lost.

        The loop itself delivers notifications as they arrive.
        """
        self._interrupted.clear()
        self._lost.add_done_callback(self._interrupt)
        try:
            while not (self._lost.done() or self._interrupted.is_set()):
                left = min(until - self._clock.now(), self._clock.longest_sleep)
                if left <= 0:
                    break
                try:
                    async with asyncio.timeout(left):
                        await self._interrupted.wait()
                except TimeoutError:
                    continue
        finally:
            self._lost.remove_done_callback(self._interrupt)
        return not self._lost.done()

    def _interrupt(self, _: object) -> None:
        self._interrupted.set()

    def interrupt(self) -> None:
        """Make `listen` return."""
        self._interrupted.set()

    async def wait_for_event(self, event: WakeEvent, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed.

        The loop itself reads the connection. Waiters do not check the clock periodically, because
        thousands of them would keep the loop busy. The listening task checks the clock, and wakes
        all waiters after the machine was suspended.
        """
        while not event.is_set():
            left = deadline - self._clock.now()
            if left <= 0:
                return
            await event.wait(min(left, LONGEST_TIMER_SECONDS))

    def wake_to_check(self) -> None:
        """Do nothing, because setting a waiter's event is enough to wake it."""

    def give_up(self) -> None:
        """Do nothing; a subclass whose opening takes several steps makes it fail at once."""

    async def close(self) -> None:
        """Stop listening; a subclass defines how."""
        raise NotImplementedError

    def abandon_in_child(self) -> None:
        """Do nothing, because the transport abandons its connections in a forked child."""


AnyListener = Listener
"""A listener to any kind of connection."""
