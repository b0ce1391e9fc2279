"""A driver's cursor that gives plain tuples, whatever the connection makes for its owner."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lockfast.connections.telling import Kind


def plain_cursor(connection: Any, kind: Kind) -> Any:  # noqa: ANN401 - a driver's
    """Return it. A dict or an object in place of a row would have to be taken apart again."""
    if kind.library == "psycopg":
        # Not by `connection.cursor()`, which may make one with other marks.
        driver, rows = import_module("psycopg"), import_module("psycopg.rows")
        make = driver.AsyncCursor if kind.is_asyncio else driver.Cursor
        return make(connection, row_factory=rows.tuple_row)
    if kind.library in {"pymysql", "asyncmy"}:
        # Nor one that leaves its rows on the server.
        return connection.cursor(import_module(f"{kind.library}.cursors").Cursor)
    cursor = connection.cursor()
    if kind.library == "sqlite3":
        cursor.row_factory = None
    return cursor
