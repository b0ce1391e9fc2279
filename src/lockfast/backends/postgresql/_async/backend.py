"""The store of `postgresql://`: what it promises, and what it brings to the verbs of `sql`."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockfast.backends.postgresql._async.diagnosis import diagnosed
from lockfast.backends.postgresql._async.lent_wire import AsyncPostgresqlLentWire
from lockfast.backends.postgresql._async.wire import AsyncPostgresqlWire
from lockfast.backends.postgresql.addresses import ACCEPTED, address_of_url
from lockfast.backends.postgresql.dialect import Dialect
from lockfast.backends.postgresql.findings import ONE_CONNECTION
from lockfast.backends.postgresql.lent_connections import where_of
from lockfast.backends.postgresql.ringing import Notifying
from lockfast.backends.postgresql.schema import Tables
from lockfast.backends.postgresql.statements import Statements
from lockfast.backends.postgresql.sweeping import PostgresqlBroom
from lockfast.backends.sql._async.adopting import AsyncAdopting
from lockfast.backends.sql._async.backend import AsyncSqlBackend, checked_connections
from lockfast.backends.sql._async.wire import MOST
from lockfast.backends.sql.store import Store
from lockfast.core.naming import checked_namespace
from lockfast.model import Capabilities, TokenQuality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock


class AsyncPostgresqlBackend(AsyncAdopting, AsyncSqlBackend[AsyncPostgresqlWire]):
    """Locks in two tables of a PostgreSQL database."""

    _scheme = "postgresql"
    _lent_wire = AsyncPostgresqlLentWire
    _where_of = staticmethod(where_of)

    capabilities = Capabilities(
        fair=True,
        shared=True,
        push_wakeup=True,
        explicit_owner=True,
        lock_delay=True,
        token_quality=TokenQuality.DURABLE,
        ends_by="ttl",
        hands_over=True,
        sequencers=True,
    )
    options = frozenset({"schema", "table", "connections"}) | ACCEPTED

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        schema: str = "public",
        table: str = "lockfast",
        connections: int | str = MOST,
        **options: Any,  # noqa: ANN401 - what libpq takes
    ) -> None:
        address = address_of_url(url, where=location, options=options)
        wire = AsyncPostgresqlWire(address, clock=clock, most=checked_connections(connections))
        self._set_up(wire, clock=clock, namespace=namespace, schema=schema, table=table)

    def _set_up(
        self,
        wire: AsyncPostgresqlWire,
        *,
        clock: Clock,
        namespace: str = "lockfast",
        schema: str = "public",
        table: str = "lockfast",
    ) -> None:
        tables = Tables(schema=schema, table=table)
        namespace = checked_namespace(namespace)
        store = Store(
            tables,
            Dialect(tables),
            Statements(tables, namespace=namespace),
            Notifying(tables, namespace=namespace),
            PostgresqlBroom(tables),
        )
        ears: AsyncPostgresqlWire | None = wire
        if wire.room == 1:
            ears = None
            self.capabilities = replace(type(self).capabilities, push_wakeup=False)
            _log.warning("%s: %s", wire.where, ONE_CONNECTION)
        super().__init__(
            wire, store, location=wire.where, clock=clock, namespace=namespace, ears=ears
        )
        self._where_kept = tables

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol; nothing is made for it."""
        self._tidying.begin()
        push = self._inbox.push
        return await diagnosed(self._wire, self._where_kept, push=push, deadline=deadline)


_log = logging.getLogger("lockfast")
