"""Rows that refuse a late holder: the token stands in a column of the row itself.

All run in the caller's transaction, on the caller's connection, and commit nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.fencing._async.row_write import AsyncRowWrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.connections.dialects import Table
    from lockfast.fencing.presenting import Presented


async def fenced_update(
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
    await AsyncRowWrite(connection, table, key, lease, fence).update(values)


async def fenced_upsert(
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
    await AsyncRowWrite(connection, table, key, lease, fence).insert_or_update(values)


async def seal(
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

    Commit it before you read: until then it keeps the row locked, and a process that freezes
    meanwhile would block every later holder.

    It does not stop a write that an earlier holder made before, nor one without a guard.
    """
    await AsyncRowWrite(connection, table, key, lease, fence).update({})
