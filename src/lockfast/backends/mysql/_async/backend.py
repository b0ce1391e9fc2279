"""The store of `mysql://` and `mariadb://`: what it promises, and what it brings to `sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.mysql._async.diagnosis import diagnosed
from lockfast.backends.mysql._async.lent_wire import AsyncMysqlLentWire
from lockfast.backends.mysql._async.wire import AsyncMysqlWire
from lockfast.backends.mysql.addresses import OPTIONS, address_of_url
from lockfast.backends.mysql.dialect import MysqlDialect
from lockfast.backends.mysql.lent_connections import where_of
from lockfast.backends.mysql.schema import Tables
from lockfast.backends.mysql.statements import Statements
from lockfast.backends.mysql.sweeping import MysqlBroom
from lockfast.backends.sql._async.adopting import AsyncAdopting
from lockfast.backends.sql._async.backend import AsyncSqlBackend, checked_connections
from lockfast.backends.sql._async.wire import MOST
from lockfast.backends.sql.ringing import Ringing
from lockfast.backends.sql.store import Store
from lockfast.core.naming import checked_namespace
from lockfast.model import Capabilities, TokenQuality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock


class AsyncMysqlBackend(AsyncAdopting, AsyncSqlBackend[AsyncMysqlWire]):
    """Locks in two tables of a MySQL or MariaDB database."""

    _scheme = "mysql"
    _lent_wire = AsyncMysqlLentWire
    _where_of = staticmethod(where_of)

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=False,
        explicit_owner=True,
        lock_delay=True,
        token_quality=TokenQuality.DURABLE,
        ends_by="ttl",
        hands_over=True,
        sequencers=True,
    )
    options = OPTIONS

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        table: str = "lockfast",
        connections: int | str = MOST,
        **options: object,
    ) -> None:
        address = address_of_url(url, where=location, options=options)
        wire = AsyncMysqlWire(address, clock=clock, most=checked_connections(connections))
        self._set_up(wire, clock=clock, namespace=namespace, table=table)

    def _set_up(
        self,
        wire: AsyncMysqlWire,
        *,
        clock: Clock,
        namespace: str = "lockfast",
        table: str = "lockfast",
    ) -> None:
        tables = Tables(table)
        namespace = checked_namespace(namespace)
        store = Store(
            tables,
            MysqlDialect(tables),
            Statements(tables, namespace=namespace),
            Ringing(),
            MysqlBroom(tables),
        )
        super().__init__(wire, store, location=wire.where, clock=clock, namespace=namespace)
        self._where_kept = tables

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol; nothing is made for it."""
        self._tidying.begin()
        return await diagnosed(self._wire, self._where_kept, deadline=deadline)
