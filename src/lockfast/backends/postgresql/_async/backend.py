"""The `postgresql://` backend: its capabilities, and what it adds to the shared SQL verbs."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lockfast.backends.postgresql import diagnostics
from lockfast.backends.postgresql._async.transport import (
    AsyncPostgresqlBorrowedTransport,
    AsyncPostgresqlTransport,
)
from lockfast.backends.postgresql.address import ACCEPTED_PARAMETERS, address_of_url
from lockfast.backends.postgresql.connection_setup import where_of
from lockfast.backends.postgresql.diagnostics import (
    NEEDED_PRIVILEGES,
    ONE_CONNECTION,
    Rights,
    ServerFacts,
    Snapshot,
    Standby,
    findings,
)
from lockfast.backends.postgresql.dialect import PostgresqlDialect
from lockfast.backends.postgresql.notify import PostgresqlNotifier
from lockfast.backends.postgresql.schema import PostgresqlTables
from lockfast.backends.postgresql.statements import PostgresqlReaper, PostgresqlStatements
from lockfast.backends.sql._async.backend import AsyncSqlBackend, checked_connections
from lockfast.backends.sql._async.transport import CONNECTIONS_DEFAULT
from lockfast.backends.sql.diagnostics import clock_ahead as measured_clock_ahead
from lockfast.backends.sql.statements import SqlStore
from lockfast.backends.sql.steps import Query
from lockfast.backends.waiting import NotificationsUnavailable
from lockfast.core.naming import checked_namespace
from lockfast.errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock


# Queries a server about itself; `findings` interprets the replies.


async def diagnosed(
    transport: AsyncPostgresqlTransport,
    tables: PostgresqlTables,
    *,
    push: bool | None,
    deadline: float,
) -> list[Finding]:
    """Return findings about the server; `push` is whether notifications reach this client.

    If `push` is None and there is a pooler in between, the delivery of notifications is tested.
    """
    settings, standbys, connections, oldest = await transport.send_all(
        [
            Query(diagnostics.SETTINGS_QUERY),
            Query(diagnostics.STANDBYS_QUERY),
            Query(diagnostics.CONNECTIONS_QUERY),
            Query(diagnostics.OLDEST_SNAPSHOT_QUERY),
        ],
        deadline=deadline,
    )
    greeting = transport.greeting
    if greeting is None:  # pragma: no cover - a reply came, so there was a handshake
        raise BackendUnavailable(f"{transport.where}: it was not greeted")
    ahead = await _clock_ahead(transport, deadline)
    rights = await _rights(transport, tables, deadline)
    # Test this last, because the wait for a notification that never comes may use up the time for
    # queries.
    if push is None and greeting.is_pooled:
        push = await _are_notifications_received(transport, deadline)
    return findings(
        ServerFacts(
            where=transport.where,
            version=greeting.version,
            settings=dict(settings),
            is_pooled=greeting.is_pooled,
            push=push,
            is_standby=greeting.is_standby,
            standbys=[Standby(*row) for row in standbys],
            ahead=ahead,
            rights=rights,
            snapshot=Snapshot(*oldest[0]) if oldest else None,
            connections=connections[0][0],
            room=transport.room,
        )
    )


async def _are_notifications_received(transport: AsyncPostgresqlTransport, deadline: float) -> bool:
    """Return whether notifications reach us, tested on a channel that nobody else uses.

    A pooler may never end the LISTEN, so the test needs a channel that is never notified again.
    """
    try:
        subscription = await transport.subscribe(
            f"lockfast_doctor_{os.urandom(8).hex()}", lambda _: None, deadline=deadline
        )
    except NotificationsUnavailable:
        return False
    await subscription.close()
    return True


async def _clock_ahead(transport: AsyncPostgresqlTransport, deadline: float) -> float:
    before = time.time()
    [[theirs]] = await transport.ask(Query(diagnostics.TIME_QUERY), deadline=deadline)
    return measured_clock_ahead(float(theirs), before=before, after=time.time())


async def _rights(
    transport: AsyncPostgresqlTransport, tables: PostgresqlTables, deadline: float
) -> Rights:
    [[row], *found] = await transport.send_all(
        [
            Query(diagnostics.RIGHTS_QUERY, (tables.schema,)),
            *(Query(diagnostics.TABLE_RIGHTS_QUERY, (tables.schema, one)) for one in tables.names),
        ],
        deadline=deadline,
    )
    user, is_there, may_use, may_make = row
    mismatch = None
    if may_use:
        [rows] = await transport.send_all([tables.look()], deadline=deadline)
        try:
            tables.are_there(rows)
        except ConfigurationError as error:
            mismatch = str(error)
    return Rights(
        user=user,
        schema=tables.schema,
        tables=(tables.door, tables.place),
        schema_is_there=is_there,
        may_use=may_use,
        may_make=may_make,
        missing={
            name: [
                right
                for right, is_granted in zip(NEEDED_PRIVILEGES, privileges, strict=True)
                if not is_granted
            ]
            for name, one in zip((tables.door, tables.place), found, strict=True)
            for privileges in one
        },
        mismatch=mismatch,
    )


class AsyncPostgresqlBackend(AsyncSqlBackend[AsyncPostgresqlTransport]):
    """Locks in two tables of a PostgreSQL database."""

    _scheme = "postgresql"
    _borrowed_transport = AsyncPostgresqlBorrowedTransport
    _where_of = staticmethod(where_of)

    capabilities = replace(AsyncSqlBackend.capabilities, push_wakeup=True)
    options = frozenset({"schema", "table", "connections"}) | ACCEPTED_PARAMETERS
    _tables: PostgresqlTables

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        schema: str = "public",
        table: str = "lockfast",
        connections: int | str = CONNECTIONS_DEFAULT,
        **options: Any,  # noqa: ANN401 - libpq's parameters
    ) -> None:
        address = address_of_url(url, where=location, options=options)
        transport = AsyncPostgresqlTransport(
            address, clock=clock, most=checked_connections(connections)
        )
        self._set_up(transport, clock=clock, namespace=namespace, schema=schema, table=table)

    def _set_up(
        self,
        transport: AsyncPostgresqlTransport,
        *,
        clock: Clock,
        namespace: str = "lockfast",
        schema: str = "public",
        table: str = "lockfast",
    ) -> None:
        tables = PostgresqlTables(schema=schema, table=table)
        namespace = checked_namespace(namespace)
        store = SqlStore(
            tables,
            PostgresqlDialect(tables),
            PostgresqlStatements(tables, namespace=namespace),
            PostgresqlNotifier(tables, namespace=namespace),
            PostgresqlReaper(tables),
        )
        if transport.room == 1:
            self.capabilities = replace(self.capabilities, push_wakeup=False)
            _log.warning("%s: %s", transport.where, ONE_CONNECTION)
        super().__init__(transport, store, clock=clock, namespace=namespace)

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """Check the server without creating the tables."""
        self._idle_reaper.begin()
        push = self._inbox.push
        return await diagnosed(self._transport, self._tables, push=push, deadline=deadline)


_log = logging.getLogger("lockfast")
