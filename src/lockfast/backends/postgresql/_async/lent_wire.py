"""The way to a PostgreSQL server over connections that the application lends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.postgresql._async.lent_link import AsyncPostgresqlLentLink
from lockfast.backends.postgresql._async.wire import AsyncPostgresqlWire
from lockfast.backends.sql._async.lent_wire import AsyncLentWire

if TYPE_CHECKING:
    from lockfast.backends.postgresql.link.aio import Link


class AsyncPostgresqlLentWire(AsyncLentWire, AsyncPostgresqlWire):
    """Its connections are the application's."""

    def _unconnected(self) -> Link:
        return AsyncPostgresqlLentLink(clock=self._clock, where=self.where)
