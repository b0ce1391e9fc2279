# Generated from src/lockfast/dbapi/_async/connection.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Runs a statement on the caller's connection, whatever its library, and returns the result.

The connection is used in the caller's transaction, between the caller's own statements. So this
module begins, commits and rolls back nothing, and leaves the connection's own settings for rows and
cursors as they are.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockfast.dbapi.drivers import (
    StatementResult,
    change_result,
    kind_of,
    names_missing_object,
    plain_cursor,
)
from lockfast.errors import ConfigurationError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.dbapi.statements import DatabaseDialect, Statement


class CallersConnection:
    """The caller's connection or session; raises ConfigurationError if its kind is unknown."""

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - any driver
        self.kind = kind_of(connection, is_asyncio=runtime.FLAVOUR == "asyncio")
        self._connection = connection

    @property
    def dialect(self) -> DatabaseDialect:
        """The SQL dialect of the connection's database."""
        return self.kind.dialect

    def run(self, statement: Statement) -> StatementResult:
        """Run the statement; only errors about a missing table, column or key are converted."""
        words = statement.words(self.kind.marks)
        try:
            if self.kind.library == "sqlalchemy":
                return self._by_sqlalchemy(words, statement.named_values())
            return self._by_cursor(words, statement.values())
        except Exception as error:
            if names_missing_object(error):
                said = getattr(error, "orig", None) or error
                raise ConfigurationError(
                    f"the database knows no such table, column or unique key: {said}"
                ) from error
            raise

    def _by_sqlalchemy(self, words: str, values: dict[str, Any]) -> StatementResult:
        text = import_module("sqlalchemy").text
        result = self._connection.execute(text(words), values)
        if not result.returns_rows:
            return change_result(result.rowcount)
        return StatementResult(
            columns=tuple(result.keys()), rows=tuple(map(tuple, result.fetchall()))
        )

    def _by_cursor(self, words: str, values: tuple[Any, ...]) -> StatementResult:
        cursor = plain_cursor(self._connection, self.kind)
        try:
            cursor.execute(words, values)
            if not cursor.description:
                return change_result(cursor.rowcount)
            columns = tuple(one[0] for one in cursor.description)
            return StatementResult(columns=columns, rows=tuple(map(tuple, cursor.fetchall())))
        finally:
            cursor.close()
