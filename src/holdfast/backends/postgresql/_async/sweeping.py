"""Sweeping idle names now and then, and never at the cost of whoever happens to be there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from holdfast.backends.postgresql.sweeping import Broom
from holdfast.errors import LockError
from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from holdfast.backends.postgresql.connection.aio import Wire
    from holdfast.backends.postgresql.schema import Tables
    from holdfast.backends.sql.steps import Ask


class AsyncSweeper:
    """One client's broom."""

    def __init__(self, wire: Wire, tables: Tables) -> None:
        self._wire = wire
        self._broom = Broom(tables)
        self._state = runtime.StateLock()
        self._is_at_it = False

    async def sweep_now_and_then(self, *, deadline: float, releases: int = 1) -> int:
        """Call it with every release; return how many names went. Raises no error of the store."""
        with self._state:
            if self._is_at_it or not self._broom.is_due(releases):
                return 0
            self._is_at_it = True
            request = self._broom.request()
        try:
            return await self._sweep(request, deadline)
        except LockError:
            # The caller's own request comes first, and will tell what is wrong with the store.
            # What was not swept goes the next time.
            return 0
        finally:
            with self._state:
                self._is_at_it = False

    def after_fork_in_child(self) -> None:
        """Nobody of the parent's is at it here."""
        self._state = runtime.StateLock()
        self._is_at_it = False

    async def _sweep(self, request: Ask, deadline: float) -> int:
        [rows] = await self._wire.ask_all([request], deadline=deadline)
        with self._state:
            gone, between = self._broom.swept(rows)
        if between is None:
            return gone
        steps = partial(self._broom.lines, between)
        return gone + await self._wire.transact(steps, deadline=deadline)
