"""A caller's table whose rows have a key, with checked and quoted names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.dbapi.statements import MYSQL, Statement, Value, joined
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockfast.dbapi.statements import DatabaseDialect, Table


# A row, as it was read.


class Row(Mapping[str, Any]):
    """The values of a row by column name, as they were when it was read."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self._columns = columns

    def __getitem__(self, column: str) -> Any:  # noqa: ANN401 - whatever the column contains
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def columns(option: str, option_value: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of one or more columns; the error for other values says what is accepted."""
    names = (option_value,) if isinstance(option_value, str) else tuple(option_value)
    if not all(isinstance(one, str) for one in names):
        raise TypeError(f"{option} is the name of a column, or several: each a str")
    if not names or not all(names) or len(set(names)) < len(names):
        raise ConfigurationError(
            f"{option}={option_value!r}: the name of a column, or several different ones, is "
            "accepted"
        )
    return names


def folded(names: Iterable[str]) -> set[str]:
    """Return the names as most databases compare them, where ID and id are the same column."""
    return {one.casefold() for one in names}


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A table, and the columns that identify one of its rows."""

    table: Table
    key: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, key: str | Sequence[str]) -> KeyedTable:
        """Return the table with its names checked."""
        return cls(table if isinstance(table, str) else tuple(table), columns("key", key))

    def __str__(self) -> str:
        return self.table if isinstance(self.table, str) else ".".join(self.table)

    def checked_key(self, values: Sequence[object]) -> tuple[object, ...]:
        """Return the values of a key, one for each of its columns."""
        if len(values) != len(self.key) or any(one is None for one in values):
            raise ConfigurationError(
                f"the key of {self} is {', '.join(self.key)}: give {len(self.key)} value(s), and "
                "not None"
            )
        return tuple(values)

    def key_of(self, row: Mapping[str, Any]) -> tuple[object, ...]:
        """Return the key of a row that was read."""
        missing = [one for one in self.key if one not in row]
        if missing:
            raise ConfigurationError(
                f"{self} has no column {', '.join(missing)}: spell the key as the table does"
            )
        return tuple(row[one] for one in self.key)

    def is_row(self, dialect: DatabaseDialect, key: Sequence[object]) -> Statement:
        """Return the condition that selects the row with this key."""
        return equal(dialect, zip(self.key, key, strict=True))

    def changed(self, dialect: DatabaseDialect, changes: Mapping[str, object]) -> list[Statement]:
        """Return the SET assignments of an update."""
        return [
            Statement(dialect.quoted(name), " = ", Value(value)) for name, value in changes.items()
        ]

    def refuse_own(self, changes: Mapping[str, object], *own: str) -> None:
        """Refuse changes to the key, or to columns that Lockfast maintains."""
        ours = folded((*self.key, *own))
        taken = {one for one in changes if one.casefold() in ours}
        if taken or not changes:
            allowed = f"not {', '.join(sorted(taken))}" if taken else "and at least one of them"
            raise ConfigurationError(
                f"changes of a row of {self} name columns of the caller's, {allowed}"
            )


def equal(dialect: DatabaseDialect, pairs: Iterable[tuple[str, object]]) -> Statement:
    """Return the condition that each column has the given value; None stands for NULL."""
    return joined(
        " AND ",
        [
            Statement(dialect.quoted(name), " IS NULL")
            if value is None
            else Statement(dialect.quoted(name), " = ", Value(value))
            for name, value in pairs
        ],
    )


# Rows that have a version: their statements, and the row itself.


class VersionedRow(Row):
    """A row as it was read, with its key and its version."""

    def __init__(self, columns: dict[str, Any], *, key: tuple[object, ...], version: int) -> None:
        super().__init__(columns)
        self.key = key
        self.version = version

    def __repr__(self) -> str:
        return f"VersionedRow({self._columns!r})"


def selected(
    keyed: KeyedTable,
    dialect: DatabaseDialect,
    key: Sequence[object],
    *,
    reads_latest: bool = False,
) -> Statement:
    """Return the statement that reads one row.

    `reads_latest` matters only in MySQL, where a transaction sees its first snapshot unless the
    statement locks the row.
    """
    lock = dialect.for_update if reads_latest and dialect is MYSQL else ""
    table, condition = dialect.quoted_table(keyed.table), keyed.is_row(dialect, key)
    return Statement("SELECT * FROM ", table, " WHERE ", condition, lock)


def updated(
    keyed: KeyedTable,
    dialect: DatabaseDialect,
    row: VersionedRow,
    version: str,
    changes: dict[str, Any],
) -> Statement:
    """Return the statement that writes a row, unless the row has changed since it was read."""
    column = dialect.quoted(version)
    assignments = [*keyed.changed(dialect, changes), Statement(f"{column} = {column} + 1")]
    return Statement(
        *("UPDATE ", dialect.quoted_table(keyed.table), " SET ", joined(", ", assignments)),
        *(" WHERE ", keyed.is_row(dialect, row.key)),
        *(f" AND {column} = ", Value(row.version)),
    )


def versioned(keyed: KeyedTable, columns: dict[str, Any], version: str) -> VersionedRow:
    """Return a row that was read; raise if its version is not a number."""
    number = columns.get(version)
    if isinstance(number, bool) or not isinstance(number, int):
        raise ConfigurationError(
            f"the version of a row of {keyed} is {number!r}: make {version!r} a column of whole "
            "numbers, NOT NULL"
        )
    return VersionedRow(columns, key=keyed.key_of(columns), version=number)
