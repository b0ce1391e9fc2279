"""A table of the caller's, as far as its rows are named by a key: checked names, quoted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.connections.statements import Statement, Value, joined
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lockfast.connections.dialects import Dialect, Table


def columns(option: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of one or several columns, or say what is accepted."""
    names = (given,) if isinstance(given, str) else tuple(given)
    if not all(isinstance(one, str) for one in names):
        raise TypeError(f"{option} is the name of a column, or several: each a str")
    if not names or not all(names) or len(set(names)) < len(names):
        raise ConfigurationError(
            f"{option}={given!r}: the name of a column, or several different ones, is accepted"
        )
    return names


def folded(names: Iterable[str]) -> set[str]:
    """Return the names as most databases compare them, to whom ID and id are one column."""
    return {one.casefold() for one in names}


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """Which rows there are, and by which columns one of them is told apart."""

    table: Table
    key: tuple[str, ...]

    @classmethod
    def of(cls, table: Table, key: str | Sequence[str]) -> KeyedTable:
        """Return it, with what is not yet clear made so."""
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

    def is_row(self, dialect: Dialect, key: Sequence[object]) -> Statement:
        """Return the condition that it is that row."""
        return equal(dialect, zip(self.key, key, strict=True))

    def changed(self, dialect: Dialect, changes: Mapping[str, object]) -> list[Statement]:
        """Return the assignments."""
        return [
            Statement(dialect.quoted(name), " = ", Value(value)) for name, value in changes.items()
        ]

    def refuse_own(self, changes: Mapping[str, object], *own: str) -> None:
        """Refuse to change what tells the row apart, or what is kept for the caller."""
        ours = folded((*self.key, *own))
        taken = {one for one in changes if one.casefold() in ours}
        if taken or not changes:
            said = f"not {', '.join(sorted(taken))}" if taken else "and at least one of them"
            raise ConfigurationError(
                f"changes of a row of {self} name columns of the caller's, {said}"
            )


def equal(dialect: Dialect, pairs: Iterable[tuple[str, object]]) -> Statement:
    """Return the condition that all of these columns have these values; None is NULL."""
    return joined(
        " AND ",
        [
            Statement(dialect.quoted(name), " IS NULL")
            if value is None
            else Statement(dialect.quoted(name), " = ", Value(value))
            for name, value in pairs
        ],
    )
