"""Sweeping idle names now and then, and never at the cost of whoever happens to be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.postgresql.sweeping import Broom
from holdfast.errors import LockError
from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from holdfast.backends.postgresql.connection.aio import Wire
    from holdfast.backends.postgresql.schema import Tables


class AsyncSweeper:
    """One client's broom."""

    def __init__(self, wire: Wire, tables: Tables) -> None:
        self._wire = wire
        self._broom = Broom(tables)
        self._state = runtime.StateLock()
        self._is_at_it = False

    async def sweep_now_and_then(self, *, deadline: float, releases: int = 1) -> int:
        """Call it after releases; return how many names went. Raises no error of the store's."""
        with self._state:
            if self._is_at_it or not self._broom.is_due(releases):
                return 0
            self._is_at_it = True
            request = self._broom.request()
        try:
            [rows] = await self._wire.ask_all([request], deadline=deadline)
            with self._state:
                return self._broom.swept(rows)
        except LockError:
            # The release before it was answered, and stays so. What was not swept is the next
            # time, and what is wrong with the store is told to the next who asks.
            return 0
        finally:
            with self._state:
                self._is_at_it = False
