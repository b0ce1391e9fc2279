"""The way to a MySQL or MariaDB server over connections that the application lends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.mysql._async.lent_link import AsyncMysqlLentLink
from lockfast.backends.mysql._async.wire import AsyncMysqlWire
from lockfast.backends.sql._async.lent_wire import AsyncLentWire

if TYPE_CHECKING:
    from lockfast.backends.mysql.link.aio import Link


class AsyncMysqlLentWire(AsyncLentWire, AsyncMysqlWire):
    """Its connections are the application's."""

    def _unconnected(self) -> Link:
        return AsyncMysqlLentLink(clock=self._clock, where=self.where)
