"""The statements by which a row keeps the largest token that wrote to it.

A row whose column is NULL was never written under a lock, and takes every token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockfast.connections.dialects import MYSQL, SQLITE, Dialect, Table
from lockfast.connections.statements import Statement, Value, joined
from lockfast.errors import ConfigurationError

_STRICT = "@@SESSION.sql_mode REGEXP 'STRICT_(TRANS|ALL)_TABLES'"


@dataclass(frozen=True, slots=True)
class FencedRow:
    """One row of a table, by its key, and the column with the mark."""

    dialect: Dialect
    table: Table
    key: Mapping[str, Any]
    fence: str

    def __post_init__(self) -> None:
        if not isinstance(self.key, Mapping):
            raise TypeError(f"key is a dict of columns, not {type(self.key).__name__}")
        if not self.key or any(value is None for value in self.key.values()):
            raise ConfigurationError(
                f"key={dict(self.key)!r} names no row: give at least one column, and no None"
            )

    def __str__(self) -> str:
        table = self.table if isinstance(self.table, str) else ".".join(self.table)
        return f"the row of {table} at {', '.join(f'{k}={v!r}' for k, v in self.key.items())}"

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is to be written; the key and the mark are not the caller's to change."""
        if not isinstance(values, Mapping):
            raise TypeError(f"values is a dict of columns, not {type(values).__name__}")
        # Most databases take FENCE and fence for one column, and would write to it twice.
        ours = {str(one).casefold() for one in (self.fence, *self.key)}
        if taken := [one for one in values if str(one).casefold() in ours]:
            raise ConfigurationError(
                f"{', '.join(taken)}: values may name neither the key nor the column of the token"
            )
        return dict(values)

    def update(self, values: Mapping[str, Any], token: int) -> Statement:
        """Return what writes, and raises the mark, unless the row has seen a larger token."""
        new = {**values, self.fence: token}
        return Statement(
            *("UPDATE ", self._table, " SET "),
            joined(", ", (Statement(self._quoted(k), " = ", Value(v)) for k, v in new.items())),
            *(" WHERE ", self._is_it, " AND ", self._may_write(token), self._if_strict),
        )

    def insert_or_update(self, values: Mapping[str, Any], token: int) -> Statement:
        """Return what does the same, and makes the row if there is none."""
        new = {**self.key, **values, self.fence: token}
        columns = ", ".join(map(self._quoted, new))
        given = joined(", ", (Statement(Value(value)) for value in new.values()))
        into = Statement("INSERT INTO ", self._table, " (", columns, ") ")
        if self.dialect is MYSQL:
            changes = self._on_duplicate(new, token)
            return Statement(into, "SELECT ", given, " FROM DUAL WHERE ", _STRICT, changes)
        written = (self._quoted(one) for one in new if one not in self.key)
        return Statement(
            *(into, "VALUES (", given, ") ON CONFLICT ("),
            *(", ".join(map(self._quoted, self.key)), ") DO UPDATE SET "),
            *(", ".join(f"{one} = excluded.{one}" for one in written), " WHERE "),
            self._may_write(token, table=f"{self._bare_table}."),
        )

    def read_back(self) -> Statement:
        """Return what reads the mark that was just written."""
        column = self._quoted(self.fence)
        return Statement("SELECT ", column, " FROM ", self._table, " WHERE ", self._is_it)

    def look(self) -> Statement:
        """Return what reads the mark as it is now, and on MySQL whether the session is strict.

        Locking, where there is such a thing: in MySQL's usual isolation a plain SELECT sees the
        row as it was when the transaction began, before the larger token came.
        """
        strict = f", {_STRICT}" if self.dialect is MYSQL else ", 1"
        return Statement(
            *("SELECT ", self._quoted(self.fence), strict, " FROM ", self._table),
            *(" WHERE ", self._is_it, self.dialect.for_update),
        )

    def _on_duplicate(self, new: Mapping[str, Any], token: int) -> Statement:
        """Return how MySQL updates. It does so for a conflict on any unique key, hence `_is_it`.

        The mark comes last: each assignment sees those before it.
        """
        condition = Statement(self._is_it, " AND ", self._may_write(token))
        changes = (
            Statement(q, " = IF(", condition, ", ", Value(new[name]), ", ", q, ")")
            for name, q in ((one, self._quoted(one)) for one in new if one not in self.key)
        )
        return Statement(" ON DUPLICATE KEY UPDATE ", joined(", ", changes))

    def _may_write(self, token: int, *, table: str = "") -> Statement:
        column = table + self._quoted(self.fence)
        # A column of SQLite's may have been declared as text, in which 9 is larger than 10.
        number = f"CAST({column} AS INTEGER)" if self.dialect is SQLITE else column
        return Statement("(", column, " IS NULL OR ", number, " <= ", Value(token), ")")

    @property
    def _is_it(self) -> Statement:
        pairs = self.key.items()
        return joined(" AND ", (Statement(self._quoted(k), " = ", Value(v)) for k, v in pairs))

    @property
    def _if_strict(self) -> str:
        # Else a column that is too small would keep its largest number in place of the token,
        # and take every later one.
        return f" AND {_STRICT}" if self.dialect is MYSQL else ""

    @property
    def _table(self) -> str:
        return self.dialect.quoted_table(self.table)

    @property
    def _bare_table(self) -> str:
        """The name by which the statement's own table is known inside it."""
        return self._quoted(self.table if isinstance(self.table, str) else self.table[-1])

    def _quoted(self, name: str) -> str:
        return self.dialect.quoted(name)
