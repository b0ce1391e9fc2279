# Generated from src/lockfast/backends/mysql/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The store of `mysql://` and `mariadb://`: what it promises, and what it brings to `sql`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.mysql._sync.diagnosis import diagnosed
from lockfast.backends.mysql._sync.lent_wire import MysqlLentWire
from lockfast.backends.mysql._sync.wire import MysqlWire
from lockfast.backends.mysql.addresses import OPTIONS, address_of_url
from lockfast.backends.mysql.dialect import MysqlDialect
from lockfast.backends.mysql.lent_connections import where_of
from lockfast.backends.mysql.schema import Tables
from lockfast.backends.mysql.statements import Statements
from lockfast.backends.mysql.sweeping import MysqlBroom
from lockfast.backends.sql._sync.adopting import Adopting
from lockfast.backends.sql._sync.backend import SqlBackend, checked_connections
from lockfast.backends.sql._sync.wire import MOST
from lockfast.backends.sql.ringing import Ringing
from lockfast.backends.sql.store import Store
from lockfast.core.naming import checked_namespace
from lockfast.model import Capabilities, TokenQuality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock


class MysqlBackend(Adopting, SqlBackend[MysqlWire]):
    """Locks in two tables of a MySQL or MariaDB database."""

    _scheme = "mysql"
    _lent_wire = MysqlLentWire
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
        wire = MysqlWire(address, clock=clock, most=checked_connections(connections))
        self._set_up(wire, clock=clock, namespace=namespace, table=table)

    def _set_up(
        self,
        wire: MysqlWire,
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

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol; nothing is made for it."""
        self._tidying.begin()
        return diagnosed(self._wire, self._where_kept, deadline=deadline)
