"""The store of `mysql://` and `mariadb://`: what it promises, and what it brings to `sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.mysql._async.diagnosis import diagnosed
from holdfast.backends.mysql._async.lent_wire import AsyncMysqlLentWire
from holdfast.backends.mysql._async.wire import AsyncMysqlWire
from holdfast.backends.mysql.addresses import OPTIONS, address_of_url
from holdfast.backends.mysql.dialect import MysqlDialect
from holdfast.backends.mysql.lent_connections import where_of
from holdfast.backends.mysql.schema import Tables
from holdfast.backends.mysql.statements import Statements
from holdfast.backends.mysql.sweeping import MysqlBroom
from holdfast.backends.sql._async.adopting import AsyncAdopting
from holdfast.backends.sql._async.backend import AsyncSqlBackend, checked_connections
from holdfast.backends.sql._async.wire import MOST
from holdfast.backends.sql.ringing import Ringing
from holdfast.backends.sql.store import Store
from holdfast.core.naming import checked_namespace
from holdfast.model import Capabilities, TokenQuality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model import Finding
    from holdfast.runtime.clock import Clock


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
        namespace: str = "holdfast",
        table: str = "holdfast",
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
        namespace: str = "holdfast",
        table: str = "holdfast",
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
