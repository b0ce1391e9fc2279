# Generated from src/lockfast/backends/mysql/_async/lent_wire.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The way to a MySQL or MariaDB server over connections that the application lends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.mysql._sync.lent_link import MysqlLentLink
from lockfast.backends.mysql._sync.wire import MysqlWire
from lockfast.backends.sql._sync.lent_wire import LentWire

if TYPE_CHECKING:
    from lockfast.backends.mysql.link.threads import Link


class MysqlLentWire(LentWire, MysqlWire):
    """Its connections are the application's."""

    def _unconnected(self) -> Link:
        return MysqlLentLink(clock=self._clock, where=self.where)
