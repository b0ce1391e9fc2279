"""Periodic waits, and the spin budget of a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from lockfast.runtime import aio, threads

# Spins while waiting for a reply, before sleeping, as long as spinning usually finds the reply.

SPIN_SECONDS = 0.0001
SPIN_LIMIT = 100
"""The limits of one spin: its duration in seconds, and its number of attempts."""

SPIN_BACKOFF_LIMIT = 128
"""Largest number of replies that are awaited without a spin before the next spin."""


class SpinBudget:
    """Decides for one connection whether to spin.

    Waking a sleeping thread takes longer than a nearby server takes to reply, so on an idle
    machine, spinning halves the time of a request. If replies take longer, or other threads need
    the processor or the interpreter, spinning is a waste. So each failed spin doubles the number of
    replies that are awaited asleep before the next spin, and each successful spin reduces that
    number by a quarter. Then one late reply in ten does no harm, and if every other reply is late,
    spins are rare.
    """

    __slots__ = ("backoff", "sleeps")

    def __init__(self) -> None:
        self.sleeps: int = 0
        """Number of replies to await asleep before the next spin."""
        self.backoff: int = 1
        """The value of `sleeps` after the next failed spin."""

    def spin_failed(self) -> None:
        """Record a failed spin, so that the next waits for a reply sleep instead of spinning."""
        self.sleeps = self.backoff
        self.backoff = min(2 * self.backoff, SPIN_BACKOFF_LIMIT)

    def found(self) -> None:
        """Record a successful spin, so that spins become more frequent."""
        self.backoff = max(1, self.backoff * 3 // 4)


# Waits for a wakeup, and checks now and then in case the wakeup was lost.


class TaskTicker:
    """One timer for all waiting tasks; most of the tasks are woken before the timer fires.

    A timer for each waiter would cost more than the rest of the wait.
    """

    __slots__ = ("_before_last", "_every", "_loop", "_since_last", "_timer")

    def __init__(self, longest: float) -> None:
        self._every = longest / 2
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since_last: list[aio.WakeEvent] = []
        self._before_last: list[aio.WakeEvent] = []

    def timeout_for(self, event: aio.WakeEvent) -> float | None:
        """Return None, for no timeout; the timer sets the event spuriously within `longest`."""
        if self._timer is None:
            # Import asyncio here, because threads use this module too, and do not need asyncio.
            from asyncio import get_running_loop  # noqa: PLC0415

            self._loop = get_running_loop()
            self._timer = self._loop.call_later(self._every, self._go)
        self._since_last.append(event)
        return None

    def _go(self) -> None:
        for event in self._before_last:
            event.set()
        self._before_last, self._since_last = self._since_last, []
        self._timer = None
        if self._before_last and self._loop is not None:
            self._timer = self._loop.call_later(self._every, self._go)


class ThreadTicker:
    """Gives each waiting thread a timeout of its own, which costs nothing."""

    __slots__ = ("_longest",)

    def __init__(self, longest: float) -> None:
        self._longest = longest

    def timeout_for(self, _event: threads.WakeEvent) -> float | None:
        """Return the wait timeout for the event."""
        return self._longest
