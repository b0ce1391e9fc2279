"""One write to a row: sent, and if nothing was changed, looked at to know why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.connections._async.callers import AsyncCallersConnection
from lockfast.connections.dialects import MYSQL
from lockfast.connections.exactness import is_rounded
from lockfast.errors import BackendMisbehaved, ConfigurationError
from lockfast.fencing.presenting import Presented, shown
from lockfast.fencing.rows import FencedRow
from lockfast.fencing.staleness import inexact, stale, whole_mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.connections.dialects import Table
    from lockfast.connections.statements import Statement

ATTEMPTS = 5
"""Each is in vain only if somebody made the row between two statements of ours."""

REPLACED = 2
"""What MySQL counts for an INSERT that found its row and changed it."""


class AsyncRowWrite:
    """Who writes, by which connection, to which row; a lease that is over raises here."""

    def __init__(
        self,
        connection: Any,  # noqa: ANN401 - anybody's
        table: Table,
        key: Mapping[str, Any],
        lease: Presented,
        fence: str,
    ) -> None:
        self._who = shown(lease)
        self._connection = AsyncCallersConnection(connection)
        self._row = FencedRow(self._connection.dialect, table, key, fence)

    async def update(self, values: Mapping[str, Any]) -> None:
        """Write to the row that is there."""
        values = self._row.checked(values)
        statement = self._row.update(values, self._who.token)
        lack = "is not there; fenced_upsert makes it"
        await self._repeat(statement, values, surely=1, lack=lack)

    async def insert_or_update(self, values: Mapping[str, Any]) -> None:
        """Write to the row, and make it if it is not there."""
        values = self._row.checked(values)
        statement = self._row.insert_or_update(values, self._who.token)
        # Of MySQL 1 may also mean that the row was found and left as it was.
        surely = REPLACED if self._connection.dialect is MYSQL else 1
        lack = (
            "was neither found nor made: another unique key of the table has those values, or the "
            "session of MySQL's is not strict (sql_mode)"
        )
        await self._repeat(statement, values, surely=surely, lack=lack)

    async def _repeat(
        self, statement: Statement, values: Mapping[str, Any], *, surely: int, lack: str
    ) -> None:
        """Run it until it is known what it did; `surely` is the count that says: written."""
        for _ in range(ATTEMPTS):
            changed = (await self._connection.run(statement)).changed
            if changed > surely:
                raise self._several()
            if changed:
                await self._refuse_inexact(is_ours=changed == surely)
            if changed == surely:
                return
            if await self._has_our_token(lack) and await self._is_written(values, lack):
                return
        raise BackendMisbehaved(
            f"{self._row} was neither written nor had a larger token, {ATTEMPTS} times; does "
            "something else write to its column of the token?",
            name=self._who.name,
        )

    async def _refuse_inexact(self, *, is_ours: bool) -> None:
        """Read back what was written: 32 bits, as REAL has, keep no token and accept stale ones.

        No statement asks for the type of a column in all databases, so its content is looked at.
        A later holder's token may be there by now, but after a write of ours no smaller one.
        """
        token = self._who.token
        for [found] in (await self._connection.run(self._row.read_back())).rows:
            mark = whole_mark(found, what=str(self._row))
            if is_rounded(mark, token) or (is_ours and mark < token):
                raise inexact(mark, token, what=str(self._row), column=self._row.fence)

    async def _is_written(self, values: Mapping[str, Any], lack: str) -> bool:
        """Say whether the row is as it should be, though no count says so.

        Our token may be there from an earlier write of ours, and this one have met another row
        that has one of its unique values. MySQL says nothing of that, nor counts a row that is the
        same as before; a plain UPDATE would be refused. The others count what they find: there
        this holder has made the row by another connection just now, and we go on to write to it.
        """
        if self._connection.dialect is not MYSQL:
            return False
        changed = (await self._connection.run(self._row.update(values, self._who.token))).changed
        return changed == 1 or await self._has_our_token(lack)

    async def _has_our_token(self, lack: str) -> bool:
        """Say whether the row has our token; False to try again, StaleToken if a larger one."""
        found = (await self._connection.run(self._row.look())).rows
        if not found:
            raise ConfigurationError(f"{self._row} {lack}")
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
