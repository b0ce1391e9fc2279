# Generated from src/holdfast/backends/postgresql/_async/first_use.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The tables on first use: they are looked at once, and made if they are not there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from holdfast.backends.postgresql.connection.threads import Wire
    from holdfast.backends.postgresql.schema import Tables

NOT_ALLOWED = "42501"


class FirstUse:
    """Knows whether they are there."""

    def __init__(self, wire: Wire, tables: Tables) -> None:
        self._wire = wire
        self._tables = tables
        self._are_there = False

    def ready(self, *, deadline: float) -> None:
        """Return when they are; raise if they are not ours, or not there and not to be made."""
        if self._are_there:
            return
        wire, tables = self._wire, self._tables
        [rows] = wire.ask_all([tables.look()], deadline=deadline)
        if not tables.are_there(rows):
            try:
                wire.ask_all(tables.make(), deadline=deadline)
            except ConfigurationError as error:
                if getattr(error.__cause__, "sqlstate", None) != NOT_ALLOWED:
                    raise
                raise ConfigurationError(
                    f"{wire.where}: {tables.door} and {tables.place} are not there, and this user "
                    "may not make them; let one who may run `holdfast init` with this URL"
                ) from error
        self._are_there = True
