"""Making the tables where they are missing, and dropping them where that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from lockfast.backends.sql._async.wire import AsyncWire
    from lockfast.backends.sql.steps import Rows
    from lockfast.backends.sql.tables import Tables


async def made(wire: AsyncWire[Any], tables: Tables, *, deadline: float) -> bool:
    """Make the tables, and return whether they were missing.

    Raises ConfigurationError if what is there is not ours, or if this user may not make them.
    Whoever finds them there needs no right to make any.
    """
    if await are_there(wire, tables, deadline=deadline):
        return False
    try:
        await wire.look(tables.make, deadline=deadline)
    except ConfigurationError as error:
        # Another user may have made them since we looked: then they are not ours to remark on,
        # and that is no reason to fail.
        if await are_there(wire, tables, deadline=deadline):
            return False
        if not wire.refusals.is_forbidden(error.__cause__):
            raise
        raise ConfigurationError(
            f"{wire.where}: {tables.door} and {tables.place} are not there, and this user may not "
            "make them; let one who may run `lockfast init` with this URL, or give this one "
            f"{tables.right_to_make}; besides, it needs SELECT, INSERT, UPDATE and DELETE on the "
            "tables"
        ) from error
    return True


async def dropped(wire: AsyncWire[Any], tables: Tables, *, deadline: float) -> bool:
    """Drop the tables, with all that is locked in them; return whether they were there.

    Raises ConfigurationError if a table of that name is not ours: it is left alone.
    """
    rows = await wire.ask(tables.look(), deadline=deadline)
    _checked(tables, rows, where=wire.where)  # raises for another's
    if not rows:
        return False
    await wire.ask_all(tables.drop(), deadline=deadline)
    return True


async def are_there(wire: AsyncWire[Any], tables: Tables, *, deadline: float) -> bool:
    """Return whether the tables are there; raise if they are not ours, or too new."""
    rows = await wire.ask(tables.look(), deadline=deadline)
    return _checked(tables, rows, where=wire.where)


def _checked(tables: Tables, rows: Rows, *, where: str) -> bool:
    try:
        return tables.are_there(rows)
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}: {error}") from None
