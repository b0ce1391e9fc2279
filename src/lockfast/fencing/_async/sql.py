"""Rows that refuse a late holder's writes; a column of the row itself keeps the token.

All functions run in the caller's transaction, on the caller's connection, and commit nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.dbapi._async.connection import AsyncCallersConnection
from lockfast.dbapi.statements import MYSQL, is_rounded
from lockfast.errors import BackendMisbehaved, ConfigurationError
from lockfast.fencing.presenting import Presented, inexact, shown, stale, whole_mark
from lockfast.fencing.rows import FencedRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.dbapi.statements import Statement, Table

# One write to a row. If nothing was changed, a query finds out why.

WRITE_ATTEMPTS = 5
"""Maximum number of attempts. An attempt fails only if the row was inserted between two of our
statements."""

ROWS_REPLACED = 2
"""MySQL's row count for an INSERT that found the row and changed it."""


class AsyncRowWrite:
    """A write to a row under a lease, through a connection; raises if the lease has ended."""

    def __init__(
        self,
        connection: Any,  # noqa: ANN401 - any driver
        table: Table,
        key: Mapping[str, Any],
        lease: Presented,
        fence: str,
    ) -> None:
        self._who = shown(lease)
        self._connection = AsyncCallersConnection(connection)
        self._row = FencedRow(self._connection.dialect, table, key, fence)

    async def update(self, values: Mapping[str, Any]) -> None:
        """Write to the existing row."""
        values = self._row.checked(values)
        statement = self._row.update(values, self._who.token)
        missing_hint = "is not there; fenced_upsert makes it"
        await self._repeat(statement, values, written_count=1, missing_hint=missing_hint)

    async def insert_or_update(self, values: Mapping[str, Any]) -> None:
        """Write to the row, and insert it if it does not exist."""
        values = self._row.checked(values)
        statement = self._row.insert_or_update(values, self._who.token)
        # On MySQL, 1 may also mean that the row was found but not changed.
        written_count = ROWS_REPLACED if self._connection.dialect is MYSQL else 1
        missing_hint = (
            "was neither found nor made: another unique key of the table has those values, or the "
            "session of MySQL's is not strict (sql_mode)"
        )
        await self._repeat(
            statement, values, written_count=written_count, missing_hint=missing_hint
        )

    async def _repeat(
        self,
        statement: Statement,
        values: Mapping[str, Any],
        *,
        written_count: int,
        missing_hint: str,
    ) -> None:
        """Repeat the statement until its effect is known; success changes `written_count` rows."""
        for _ in range(WRITE_ATTEMPTS):
            changed = (await self._connection.run(statement)).changed
            if changed > written_count:
                raise self._several()
            if changed:
                await self._refuse_inexact(is_ours=changed == written_count)
            if changed == written_count:
                return
            if await self._has_our_token(missing_hint) and await self._is_written(
                values, missing_hint
            ):
                return
        raise BackendMisbehaved(
            f"{self._row} was neither written nor had a larger token, {WRITE_ATTEMPTS} times; does "
            "something else write to its column of the token?",
            name=self._who.name,
        )

    async def _refuse_inexact(self, *, is_ours: bool) -> None:
        """Read the token back, because a 32-bit column rounds tokens and accepts stale ones.

        No single statement returns a column's type in all databases, so the content of the column
        is checked. By now the column may contain a later holder's token, but after our write never
        a smaller token than ours.
        """
        token = self._who.token
        for [found] in (await self._connection.run(self._row.read_back())).rows:
            mark = whole_mark(found, what=str(self._row))
            if is_rounded(mark, token) or (is_ours and mark < token):
                raise inexact(mark, token, what=str(self._row), column=self._row.fence)

    async def _is_written(self, values: Mapping[str, Any], missing_hint: str) -> bool:
        """Return whether the row has been written as it should be, although no row count shows it.

        An earlier write of ours may have put our token there, while the present write conflicted
        with another row that has one of its unique values. MySQL does not report such a conflict,
        and does not count a row that stays the same. So a plain UPDATE is run, which the conflict
        makes fail.

        The other databases count every row that was found. So if our token is there although no row
        was counted, this holder has just inserted the row through another connection, and the write
        is tried again.
        """
        if self._connection.dialect is not MYSQL:
            return False
        changed = (await self._connection.run(self._row.update(values, self._who.token))).changed
        return changed == 1 or await self._has_our_token(missing_hint)

    async def _has_our_token(self, missing_hint: str) -> bool:
        """Return whether the row has our token; raise StaleToken if it has a larger one.

        If this returns False, the write has to be tried again.
        """
        found = (await self._connection.run(self._row.look())).rows
        if not found:
            raise ConfigurationError(f"{self._row} {missing_hint}")
        if len(found) > 1:
            raise self._several()
        [(mark, is_strict)] = found
        if not is_strict:
            raise ConfigurationError(
                "this session of MySQL's is not strict: a column that is too small for a token "
                "would hold another number; add STRICT_TRANS_TABLES to its sql_mode"
            )
        if mark is None:
            return False
        seen = whole_mark(mark, what=str(self._row))
        if seen > self._who.token:
            raise stale(self._who, seen, what=str(self._row))
        return seen == self._who.token

    def _several(self) -> ConfigurationError:
        return ConfigurationError(
            f"{self._row} is not one row but several, each with a token of its own: name a key "
            "that is unique, and roll back"
        )


async def fenced_update(
    connection: Any,  # noqa: ANN401 - any driver
    table: Table,
    key: Mapping[str, Any],
    lease: Presented,
    values: Mapping[str, Any],
    *,
    fence: str = "fence",
) -> None:
    """Write to a row; raise StaleToken and write nothing if the row has a later holder's token.

    `key` and `values` map columns to their values; `fence` is a 64-bit column for the token
    (BIGINT). One holder may write as often as it likes.

    The check does not stop a late write that arrives before the next holder has written to this
    row, so let each holder `seal` the row before it reads. The check does not cover other rows,
    reads, statements that bypass it, or a row that was deleted and inserted again.

    The write is final when the caller's transaction is committed, and not before.
    """
    await AsyncRowWrite(connection, table, key, lease, fence).update(values)


async def fenced_upsert(
    connection: Any,  # noqa: ANN401 - any driver
    table: Table,
    key: Mapping[str, Any],
    lease: Presented,
    values: Mapping[str, Any],
    *,
    fence: str = "fence",
) -> None:
    """Write to a row as `fenced_update` does, and insert the row if it does not exist.

    The key has to be unique by a constraint of the table. The limits of `fenced_update` apply here
    too. When a row is deleted, its token is lost, so a late holder can insert the row again. To
    prevent that, mark rows as deleted instead.
    """
    await AsyncRowWrite(connection, table, key, lease, fence).insert_or_update(values)


async def seal(
    connection: Any,  # noqa: ANN401 - any driver
    table: Table,
    key: Mapping[str, Any],
    lease: Presented,
    *,
    fence: str = "fence",
) -> None:
    """Write the token to a row and nothing else; call it before you first read the row.

    Once this is committed, an earlier holder's late write is refused, so the values that you read
    afterwards stay valid until a later holder writes. Raises StaleToken if a later holder has
    already written. A row that does not exist cannot be sealed; `fenced_upsert` inserts it.

    Commit the seal before you read. Until the commit, the row is locked, and if the process
    freezes, it blocks every later holder.

    The seal does not stop a write that an earlier holder made before, nor a write without a guard.
    """
    await AsyncRowWrite(connection, table, key, lease, fence).update({})
