"""The store of `postgresql://`: what it promises, and what it brings to the verbs of `sql`."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from holdfast.backends.postgresql._async.diagnosis import diagnosed
from holdfast.backends.postgresql._async.lent_wire import AsyncPostgresqlLentWire
from holdfast.backends.postgresql._async.wire import AsyncPostgresqlWire
from holdfast.backends.postgresql.addresses import ACCEPTED, address_of_url
from holdfast.backends.postgresql.dialect import Dialect
from holdfast.backends.postgresql.findings import ONE_CONNECTION
from holdfast.backends.postgresql.lent_connections import where_of
from holdfast.backends.postgresql.ringing import Notifying
from holdfast.backends.postgresql.schema import Tables
from holdfast.backends.postgresql.statements import Statements
from holdfast.backends.postgresql.sweeping import PostgresqlBroom
from holdfast.backends.sql._async.adopting import AsyncAdopting
from holdfast.backends.sql._async.backend import AsyncSqlBackend, checked_connections
from holdfast.backends.sql._async.wire import MOST
from holdfast.backends.sql.store import Store
from holdfast.core.naming import checked_namespace
from holdfast.model import Capabilities, TokenQuality

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.model import Finding
    from holdfast.runtime.clock import Clock


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
        namespace: str = "holdfast",
        schema: str = "public",
        table: str = "holdfast",
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
        namespace: str = "holdfast",
        schema: str = "public",
        table: str = "holdfast",
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


_log = logging.getLogger("holdfast")
