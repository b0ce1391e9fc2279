"""The `mysql://` and `mariadb://` backend: its capabilities, and what it adds to shared code."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockfast.backends.mysql import diagnostics
from lockfast.backends.mysql._async.transport import (
    AsyncMysqlBorrowedTransport,
    AsyncMysqlTransport,
)
from lockfast.backends.mysql.address import OPTIONS, address_of_url
from lockfast.backends.mysql.connection_setup import where_of
from lockfast.backends.mysql.dialect import MysqlDialect
from lockfast.backends.mysql.schema import MysqlTables
from lockfast.backends.mysql.statements import MysqlReaper, MysqlStatements
from lockfast.backends.sql._async.backend import AsyncSqlBackend, checked_connections
from lockfast.backends.sql._async.transport import CONNECTIONS_DEFAULT
from lockfast.backends.sql.diagnostics import clock_ahead, clock_finding
from lockfast.backends.sql.statements import SqlStore
from lockfast.backends.sql.verbs import Notifier
from lockfast.core.naming import checked_namespace
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.model import Finding
    from lockfast.runtime.clock import Clock


# Reads a server's settings, which `diagnostics` interprets.


async def diagnosed(
    transport: AsyncMysqlTransport, tables: MysqlTables, *, deadline: float
) -> Sequence[Finding]:
    """Return findings about the server, without creating or changing anything."""
    settings = await transport.ask(diagnostics.SETTINGS_QUERY, deadline=deadline)
    session = await transport.ask(diagnostics.SESSION_QUERY, deadline=deadline)
    before = time.time()
    [[theirs]] = await transport.ask(diagnostics.TIME_QUERY, deadline=deadline)
    server_ahead = clock_ahead(float(theirs), before=before, after=time.time())
    return (
        *diagnostics.findings(settings),
        *diagnostics.of_session({str(name): str(value) for name, value in session}),
        clock_finding(server_ahead),
        await _permissions(transport, tables, deadline),
    )


async def _permissions(
    transport: AsyncMysqlTransport, tables: MysqlTables, deadline: float
) -> Finding:
    rows = await transport.ask(tables.look(), deadline=deadline)
    try:
        if not tables.are_there(rows):
            return diagnostics.not_there(tables)
        # Try the statements one by one, so that a refusal says which privilege is missing, and on
        # which table.
        for one in tables.trial():
            await transport.ask(one, deadline=deadline)
    except ConfigurationError as error:
        return diagnostics.not_allowed(str(error), tables)
    return diagnostics.allowed(tables)


class AsyncMysqlBackend(AsyncSqlBackend[AsyncMysqlTransport]):
    """Locks in two tables of a MySQL or MariaDB database."""

    _scheme = "mysql"
    _borrowed_transport = AsyncMysqlBorrowedTransport
    _where_of = staticmethod(where_of)

    options = OPTIONS
    _tables: MysqlTables

    def __init__(
        self,
        *,
        url: str,
        location: str,
        clock: Clock,
        namespace: str = "lockfast",
        table: str = "lockfast",
        connections: int | str = CONNECTIONS_DEFAULT,
        **options: object,
    ) -> None:
        address = address_of_url(url, where=location, options=options)
        transport = AsyncMysqlTransport(address, clock=clock, most=checked_connections(connections))
        self._set_up(transport, clock=clock, namespace=namespace, table=table)

    def _set_up(
        self,
        transport: AsyncMysqlTransport,
        *,
        clock: Clock,
        namespace: str = "lockfast",
        table: str = "lockfast",
    ) -> None:
        tables, namespace = MysqlTables(table), checked_namespace(namespace)
        store = SqlStore(
            tables,
            MysqlDialect(tables),
            MysqlStatements(tables, namespace=namespace),
            Notifier(),
            MysqlReaper(tables),
        )
        super().__init__(transport, store, clock=clock, namespace=namespace)

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """Return the findings, without creating the tables."""
        self._idle_reaper.begin()
        return await diagnosed(self._transport, self._tables, deadline=deadline)
