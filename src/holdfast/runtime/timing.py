"""One timer of a loop for many deadlines: a timer each would cost more than a request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class OneTimer:
    """Calls `look` at the earliest of the moments that it was told, and then forgets them all."""

    __slots__ = ("_handle", "_look", "_loop")

    def __init__(self, look: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._look = look
        self._handle: asyncio.TimerHandle | None = None

    def at(self, moment: float) -> None:
        """Look then, by the loop's time, if not before."""
        if self._handle is None or moment < self._handle.when():
            self.cancel()
            self._handle = self._loop.call_at(moment, self._ring)

    def _ring(self) -> None:
        self._handle = None
        self._look()

    def cancel(self) -> None:
        """Do not look."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
