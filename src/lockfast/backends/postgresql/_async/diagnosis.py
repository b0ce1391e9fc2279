"""Asks a server about itself; what the answers mean is decided in `findings`."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from lockfast.backends.postgresql import questions
from lockfast.backends.postgresql.findings import NEEDED, Facts, Rights, Snapshot, findings
from lockfast.backends.postgresql.standbys import Standby
from lockfast.backends.sql.clock_findings import ahead as ahead_of_ours
from lockfast.backends.sql.ringing import NoPush
from lockfast.backends.sql.steps import Ask
from lockfast.errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from lockfast.backends.postgresql._async.wire import AsyncPostgresqlWire
    from lockfast.backends.postgresql.schema import Tables
    from lockfast.model import Finding


async def diagnosed(
    wire: AsyncPostgresqlWire, tables: Tables, *, push: bool | None, deadline: float
) -> list[Finding]:
    """Return what the server can promise; `push` is whether notifications reach this client.

    Where that is unknown, and a pooler stands between, it is tried.
    """
    settings, standbys, connections, oldest = await wire.ask_all(
        [
            Ask(questions.SETTINGS),
            Ask(questions.STANDBYS),
            Ask(questions.CONNECTIONS),
            Ask(questions.OLDEST_SNAPSHOT),
        ],
        deadline=deadline,
    )
    greeting = wire.greeting
    if greeting is None:  # pragma: no cover - a wire that was answered has been greeted
        raise BackendUnavailable(f"{wire.where}: it was not greeted")
    ahead = await _ahead(wire, deadline)
    rights = await _rights(wire, tables, deadline)
    # Last: silence is known as such only when the time is over, and then nothing can be asked.
    if push is None and greeting.is_pooled:
        push = await _push(wire, deadline)
    return findings(
        Facts(
            where=wire.where,
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
            room=wire.room,
        )
    )


async def _push(wire: AsyncPostgresqlWire, deadline: float) -> bool:
    """Return whether notifications reach us, by trying it on a channel that nobody else has.

    A pooler keeps what it was told to listen to, for good; nobody will ever ring there.
    """
    try:
        subscription = await wire.subscribe(
            f"lockfast_doctor_{os.urandom(8).hex()}", lambda _: None, deadline=deadline
        )
    except NoPush:
        return False
    await subscription.close()
    return True


async def _ahead(wire: AsyncPostgresqlWire, deadline: float) -> float:
    before = time.time()
    [[theirs]] = await wire.ask(Ask(questions.TIME), deadline=deadline)
    return ahead_of_ours(float(theirs), before=before, after=time.time())


async def _rights(wire: AsyncPostgresqlWire, tables: Tables, deadline: float) -> Rights:
    [[row], *found] = await wire.ask_all(
        [
            Ask(questions.RIGHTS, (tables.schema,)),
            *(Ask(questions.TABLE_RIGHTS, (tables.schema, one)) for one in tables.names),
        ],
        deadline=deadline,
    )
    user, is_there, may_use, may_make = row
    strange = None
    if may_use:
        [rows] = await wire.ask_all([tables.look()], deadline=deadline)
        try:
            tables.are_there(rows)
        except ConfigurationError as error:
            strange = str(error)
    return Rights(
        user=user,
        schema=tables.schema,
        tables=(tables.door, tables.place),
        schema_is_there=is_there,
        may_use=may_use,
        may_make=may_make,
        missing={
            name: [right for right, is_given in zip(NEEDED, given, strict=True) if not is_given]
            for name, one in zip((tables.door, tables.place), found, strict=True)
            for given in one
        },
        strange=strange,
    )
