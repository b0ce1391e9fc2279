# Generated from src/lockfast/backends/postgresql/_async/lent_wire.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The way to a PostgreSQL server over connections that the application lends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.postgresql._sync.lent_link import PostgresqlLentLink
from lockfast.backends.postgresql._sync.wire import PostgresqlWire
from lockfast.backends.sql._sync.lent_wire import LentWire

if TYPE_CHECKING:
    from lockfast.backends.postgresql.link.threads import Link


class PostgresqlLentWire(LentWire, PostgresqlWire):
    """Its connections are the application's."""

    def _unconnected(self) -> Link:
        return PostgresqlLentLink(clock=self._clock, where=self.where)
