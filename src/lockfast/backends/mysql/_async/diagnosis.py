"""Asks a server about itself; what the answers mean is decided in `findings`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockfast.backends.mysql import findings
from lockfast.backends.sql.clock_findings import ahead, clock
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.mysql._async.wire import AsyncMysqlWire
    from lockfast.backends.mysql.schema import Tables
    from lockfast.model import Finding


async def diagnosed(wire: AsyncMysqlWire, tables: Tables, *, deadline: float) -> Sequence[Finding]:
    """Return what the server can promise; nothing is made or changed for it."""
    settings = await wire.ask(findings.SETTINGS, deadline=deadline)
    session = await wire.ask(findings.SESSION, deadline=deadline)
    before = time.time()
    [[theirs]] = await wire.ask(findings.TIME, deadline=deadline)
    server_ahead = ahead(float(theirs), before=before, after=time.time())
    return (
        *findings.findings(settings),
        *findings.of_session({str(name): str(value) for name, value in session}),
        clock(server_ahead),
        await _permissions(wire, tables, deadline),
    )


async def _permissions(wire: AsyncMysqlWire, tables: Tables, deadline: float) -> Finding:
    rows = await wire.ask(tables.look(), deadline=deadline)
    try:
        if not tables.are_there(rows):
            return findings.not_there(tables)
        # One by one: what is refused says which right is missing, of which table.
        for one in tables.trial():
            await wire.ask(one, deadline=deadline)
    except ConfigurationError as error:
        return findings.not_allowed(str(error), tables)
    return findings.allowed(tables)
