# Generated from src/holdfast/fencing/_async/sql.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Rows that refuse a late holder: the token stands in a column of the row itself.

All run in the caller's transaction, on the caller's connection, and commit nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.connections._sync.callers import CallersConnection
from holdfast.connections.dialects import MYSQL
from holdfast.errors import BackendMisbehaved, ConfigurationError
from holdfast.fencing.presenting import Presented, shown
from holdfast.fencing.rows import FencedRow
from holdfast.fencing.staleness import stale, whole_mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.connections.dialects import Table
    from holdfast.core.sequencing import Sequencer

ATTEMPTS = 5
"""Each is in vain only if somebody made the row between two statements of ours."""

REPLACED = 2
"""What MySQL counts for one row that was there and is now another."""


def fenced_update(
    connection: Any,  # noqa: ANN401 - anybody's
    table: Table,
    key: Mapping[str, Any],
    lease: Presented,
    values: Mapping[str, Any],
    *,
    fence: str = "fence",
) -> None:
    """Write to a row, unless it has seen a later holder's token: then StaleToken, unwritten.

    `key` and `values` are columns with what is in them; `fence` is a column of 64 bits for
    the token (BIGINT). One holder may write as often as it likes.

    It does not stop a late write that comes before the next holder has written to this row:
    let each holder `seal` it before it reads. It says nothing of other rows, of reads, of
    statements without it, or of a row that was deleted and made again. It is final when the
    caller's transaction is committed, and not before.
    """
    who = shown(lease)
    mine = CallersConnection(connection)
    row = FencedRow(mine.dialect, table, key, fence)
    statement = row.update(row.checked(values), who.token)
    for _ in range(ATTEMPTS):
        changed = mine.run(statement).changed
        if changed > 1:
            raise _several(row)
        if changed or _is_ours(mine, row, who):
            return
    raise _restless(row, who)


def fenced_upsert(
    connection: Any,  # noqa: ANN401 - anybody's
    table: Table,
    key: Mapping[str, Any],
    lease: Presented,
    values: Mapping[str, Any],
    *,
    fence: str = "fence",
) -> None:
    """Write to a row as `fenced_update` does, and make it if there is none.

    The key has to be unique by a constraint of the table. It does not stop what
    `fenced_update` does not; and a row that is deleted has forgotten its token, so that a
    late holder can make it again: mark rows as deleted instead.
    """
    who = shown(lease)
    mine = CallersConnection(connection)
    row = FencedRow(mine.dialect, table, key, fence)
    statement = row.insert_or_update(row.checked(values), who.token)
    for _ in range(ATTEMPTS):
        changed = mine.run(statement).changed
        # Of MySQL 1 may also mean that a row was found and left as it was.
        if changed == REPLACED or (changed and mine.dialect is not MYSQL):
            return
        if _is_ours(mine, row, who, was_made=True):
            return
    raise _restless(row, who)


def seal(
    connection: Any,  # noqa: ANN401 - anybody's
    table: Table,
    key: Mapping[str, Any],
    lease: Presented,
    *,
    fence: str = "fence",
) -> None:
    """Write the token to a row and nothing else, before the first read of it.

    From then on, once it is committed, an earlier holder's late write is refused: what is
    read afterwards stays true until a later holder comes. StaleToken if one has come.
    Where no row is there yet, there is nothing to seal: `fenced_upsert` makes it.

    It does not stop a write that an earlier holder made before, nor one without a guard.
    """
    fenced_update(connection, table, key, lease, {}, fence=fence)


def _is_ours(
    mine: CallersConnection, row: FencedRow, who: Sequencer, *, was_made: bool = False
) -> bool:
    """Say whether the row has our token, so that what we wrote is there; False to try again."""
    found = mine.run(row.look()).rows
    if not found:
        raise _not_there(row, was_made=was_made)
    if len(found) > 1:
        raise _several(row)
    [(mark, is_strict)] = found
    if not is_strict:
        raise ConfigurationError(
            "this session of MySQL's is not strict: a column that is too small for a token would "
            "hold another number; add STRICT_TRANS_TABLES to its sql_mode"
        )
    if mark is None:
        return False
    seen = whole_mark(mark, what=str(row))
    if seen > who.token:
        raise stale(who, seen, what=str(row))
    return seen == who.token


def _several(row: FencedRow) -> ConfigurationError:
    return ConfigurationError(
        f"{row} is not one row but several, each with a token of its own: name a key that is "
        "unique, and roll back"
    )


def _not_there(row: FencedRow, *, was_made: bool) -> ConfigurationError:
    if was_made:
        return ConfigurationError(
            f"{row} was neither found nor made: another unique key of the table has those values, "
            "or the session of MySQL's is not strict (sql_mode)"
        )
    return ConfigurationError(f"{row} is not there; fenced_upsert makes it")


def _restless(row: FencedRow, who: Sequencer) -> BackendMisbehaved:
    return BackendMisbehaved(
        f"{row} was neither written nor had a larger token, {ATTEMPTS} times; does something else "
        "write to its column of the token?",
        name=who.name,
    )
