"""One connection of the caller's, whatever its library: a statement goes in, an answer comes out.

It is used in the caller's transaction, between the caller's own statements: nothing is begun,
committed or rolled back here, and the connection's own settings for rows and cursors stay.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockfast.connections.answers import Answer, of_change
from lockfast.connections.cursors import plain_cursor
from lockfast.connections.refusals import tells_of_missing
from lockfast.connections.telling import kind_of
from lockfast.errors import ConfigurationError
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast.connections.dialects import Dialect
    from lockfast.connections.statements import Statement


class AsyncCallersConnection:
    """The caller's connection or session; refused in a sentence if it is none of those known."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - anybody's
        self.kind = kind_of(connection, is_asyncio=runtime.FLAVOUR == "asyncio")
        self._connection = connection

    @property
    def dialect(self) -> Dialect:
        """How names are quoted here."""
        return self.kind.dialect

    async def run(self, statement: Statement) -> Answer:
        """Run it. The driver's errors are the caller's, but for a name that is not there."""
        words = statement.words(self.kind.marks)
        try:
            if self.kind.library == "sqlalchemy":
                return await self._by_sqlalchemy(words, statement.named_values())
            return await self._by_cursor(words, statement.values())
        except Exception as error:
            if tells_of_missing(error):
                said = getattr(error, "orig", None) or error
                raise ConfigurationError(
                    f"the database knows no such table, column or unique key: {said}"
                ) from error
            raise

    async def _by_sqlalchemy(self, words: str, values: dict[str, Any]) -> Answer:
        text = import_module("sqlalchemy").text
        result = await self._connection.execute(text(words), values)
        if not result.returns_rows:
            return of_change(result.rowcount)
        return Answer(columns=tuple(result.keys()), rows=tuple(map(tuple, result.fetchall())))

    async def _by_cursor(self, words: str, values: tuple[Any, ...]) -> Answer:
        cursor = plain_cursor(self._connection, self.kind)
        try:
            await cursor.execute(words, values)
            if not cursor.description:
                return of_change(cursor.rowcount)
            columns = tuple(one[0] for one in cursor.description)
            return Answer(columns=columns, rows=tuple(map(tuple, await cursor.fetchall())))
        finally:
            await cursor.close()
