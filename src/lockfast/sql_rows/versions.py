"""Rows that carry a version: what is asked of the database, and what a row is then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.connections.dialects import MYSQL
from lockfast.connections.statements import Statement, Value, joined
from lockfast.errors import ConfigurationError
from lockfast.sql_rows.rows import Row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.connections.dialects import Dialect
    from lockfast.sql_rows.tables import KeyedTable


class VersionedRow(Row):
    """A row, the key that tells it apart, and the version that it had when it was read."""

    def __init__(self, columns: dict[str, Any], *, key: tuple[object, ...], version: int) -> None:
        super().__init__(columns)
        self.key = key
        self.version = version

    def __repr__(self) -> str:
        return f"VersionedRow({self._columns!r})"


def selected(
    keyed: KeyedTable, dialect: Dialect, key: Sequence[object], *, as_it_is_now: bool = False
) -> Statement:
    """Return what reads one row.

    As it is now: MySQL goes on showing a transaction what it has seen at first, unless it locks.
    """
    lock = dialect.for_update if as_it_is_now and dialect is MYSQL else ""
    table, condition = dialect.quoted_table(keyed.table), keyed.is_row(dialect, key)
    return Statement("SELECT * FROM ", table, " WHERE ", condition, lock)


def updated(
    keyed: KeyedTable, dialect: Dialect, row: VersionedRow, version: str, changes: dict[str, Any]
) -> Statement:
    """Return what writes a row, if nobody has since it was read."""
    column = dialect.quoted(version)
    assignments = [*keyed.changed(dialect, changes), Statement(f"{column} = {column} + 1")]
    return Statement(
        *("UPDATE ", dialect.quoted_table(keyed.table), " SET ", joined(", ", assignments)),
        *(" WHERE ", keyed.is_row(dialect, row.key)),
        *(f" AND {column} = ", Value(row.version)),
    )


def versioned(keyed: KeyedTable, columns: dict[str, Any], version: str) -> VersionedRow:
    """Return a row that was read; refuse one without a number for its version."""
    number = columns.get(version)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ConfigurationError(
            f"the version of a row of {keyed} is {number!r}: make {version!r} a column of whole "
            "numbers, NOT NULL"
        )
    return VersionedRow(columns, key=keyed.key_of(columns), version=number)
