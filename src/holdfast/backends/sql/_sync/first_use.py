# Generated from src/holdfast/backends/sql/_async/first_use.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The tables on first use: they are looked at once, and made if they are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.backends.sql._sync.making import made

if TYPE_CHECKING:
    from holdfast.backends.sql._sync.wire import Wire
    from holdfast.backends.sql.tables import Tables


class FirstUse:
    """Knows whether they are there."""

    def __init__(self, wire: Wire[Any], tables: Tables) -> None:
        self._wire = wire
        self._tables = tables
        self.is_over = False

    def ready(self, *, deadline: float) -> None:
        """Return when they are; raise if they are not ours, or not there and not to be made."""
        if self.is_over:
            return
        made(self._wire, self._tables, deadline=deadline)
        self.is_over = True
