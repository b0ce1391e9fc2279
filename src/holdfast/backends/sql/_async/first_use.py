"""The tables on first use: they are looked at once, and made if they are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.backends.sql._async.making import made

if TYPE_CHECKING:
    from holdfast.backends.sql._async.wire import AsyncWire
    from holdfast.backends.sql.tables import Tables


class AsyncFirstUse:
    """Knows whether they are there."""

    def __init__(self, wire: AsyncWire[Any], tables: Tables) -> None:
        self._wire = wire
        self._tables = tables
        self.is_over = False

    async def ready(self, *, deadline: float) -> None:
        """Return when they are; raise if they are not ours, or not there and not to be made."""
        if self.is_over:
            return
        await made(self._wire, self._tables, deadline=deadline)
        self.is_over = True
