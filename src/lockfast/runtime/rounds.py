"""Waiting for a call, and looking around now and then in case that nobody calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from lockfast.runtime import aio, threads


class TaskRounds:
    """For tasks: one timer serves all who wait, and most have been called before it rings.

    A timer for each of them would cost more than all else that waiting does.
    """

    __slots__ = ("_before_last", "_every", "_loop", "_since_last", "_timer")

    def __init__(self, longest: float) -> None:
        self._every = longest / 2
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since_last: list[aio.Event] = []
        self._before_last: list[aio.Event] = []

    def minded(self, event: aio.Event) -> float | None:
        """Return how long to wait for the event: it is set for nothing before too long."""
        if self._timer is None:
            # Here, since threads have their rounds from this module, and do without asyncio.
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


class ThreadRounds:
    """For threads: each waits for so long, which costs nothing."""

    __slots__ = ("_longest",)

    def __init__(self, longest: float) -> None:
        self._longest = longest

    def minded(self, _event: threads.Event) -> float | None:
        """Return how long to wait for the event."""
        return self._longest
