"""One timer of a loop for many deadlines: a timer each would cost more than a request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

NEVER = float("inf")


class OneTimer:
    """Calls `look` at the earliest of the moments that it was told, and then forgets them all."""

    __slots__ = ("_handle", "_look", "_loop", "moment")

    def __init__(self, look: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._look = look
        self._handle: asyncio.TimerHandle | None = None
        self.moment: float = NEVER
        """When it looks next."""

    def at(self, moment: float) -> None:
        """Look then, by the loop's time, if not before."""
        if moment < self.moment:
            self.cancel()
            self._handle, self.moment = self._loop.call_at(moment, self._ring), moment

    def _ring(self) -> None:
        self._handle, self.moment = None, NEVER
        self._look()

    def cancel(self) -> None:
        """Do not look."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle, self.moment = None, NEVER
