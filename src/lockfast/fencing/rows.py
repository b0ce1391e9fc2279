"""The statements with which a row keeps the largest token of its writers.

A row whose token column is NULL was never written under a lock, and accepts every token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lockfast.dbapi.statements import (
    MYSQL,
    SQLITE,
    DatabaseDialect,
    Statement,
    Table,
    Value,
    joined,
)
from lockfast.errors import ConfigurationError

_STRICT = "@@SESSION.sql_mode REGEXP 'STRICT_(TRANS|ALL)_TABLES'"


@dataclass(frozen=True, slots=True)
class FencedRow:
    """One row of a table, identified by its key, with the column that keeps the mark."""

    dialect: DatabaseDialect
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
        """Return the values to write; raise if they include the key or the mark."""
        if not isinstance(values, Mapping):
            raise TypeError(f"values is a dict of columns, not {type(values).__name__}")
        # Most databases treat FENCE and fence as one column, so the statement would write to it
        # twice.
        ours = {str(one).casefold() for one in (self.fence, *self.key)}
        if taken := [one for one in values if str(one).casefold() in ours]:
            raise ConfigurationError(
                f"{', '.join(taken)}: values may name neither the key nor the column of the token"
            )
        return dict(values)

    def update(self, values: Mapping[str, Any], token: int) -> Statement:
        """Return an UPDATE that also raises the mark, and writes nothing if the mark is larger."""
        new = {**values, self.fence: token}
        return Statement(
            *("UPDATE ", self._table, " SET "),
            joined(", ", (Statement(self._quoted(k), " = ", Value(v)) for k, v in new.items())),
            *(" WHERE ", self._is_it, " AND ", self._may_write(token), self._if_strict),
        )

    def insert_or_update(self, values: Mapping[str, Any], token: int) -> Statement:
        """Return an INSERT of the row that acts like `update` if the row exists."""
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
        """Return a SELECT of the mark that was just written."""
        column = self._quoted(self.fence)
        return Statement("SELECT ", column, " FROM ", self._table, " WHERE ", self._is_it)

    def look(self) -> Statement:
        """Return a SELECT of the current mark, and on MySQL of whether the session is strict.

        The SELECT locks the row where the database can, because in MySQL's default isolation level
        a plain SELECT sees the row as it was when the transaction began, before the larger token
        was written.
        """
        strict = f", {_STRICT}" if self.dialect is MYSQL else ", 1"
        return Statement(
            *("SELECT ", self._quoted(self.fence), strict, " FROM ", self._table),
            *(" WHERE ", self._is_it, self.dialect.for_update),
        )

    def _on_duplicate(self, new: Mapping[str, Any], token: int) -> Statement:
        """Return MySQL's update clause, which applies to a conflict on any unique key.

        So each assignment checks that the row is the intended one (`_is_it`). The mark is assigned
        last, because each assignment sees the effect of those before it.
        """
        condition = Statement(self._is_it, " AND ", self._may_write(token))
        changes = (
            Statement(q, " = IF(", condition, ", ", Value(new[name]), ", ", q, ")")
            for name, q in ((one, self._quoted(one)) for one in new if one not in self.key)
        )
        return Statement(" ON DUPLICATE KEY UPDATE ", joined(", ", changes))

    def _may_write(self, token: int, *, table: str = "") -> Statement:
        column = table + self._quoted(self.fence)
        # A column in SQLite may have been declared as text, and compared as text, 9 is larger than
        # 10.
        number = f"CAST({column} AS INTEGER)" if self.dialect is SQLITE else column
        return Statement("(", column, " IS NULL OR ", number, " <= ", Value(token), ")")

    @property
    def _is_it(self) -> Statement:
        pairs = self.key.items()
        return joined(" AND ", (Statement(self._quoted(k), " = ", Value(v)) for k, v in pairs))

    @property
    def _if_strict(self) -> str:
        # If the session is not strict, a column that is too small stores its largest number instead
        # of the token, and accepts every later token.
        return f" AND {_STRICT}" if self.dialect is MYSQL else ""

    @property
    def _table(self) -> str:
        return self.dialect.quoted_table(self.table)

    @property
    def _bare_table(self) -> str:
        """The name by which a statement refers to its own table."""
        return self._quoted(self.table if isinstance(self.table, str) else self.table[-1])

    def _quoted(self, name: str) -> str:
        return self.dialect.quoted(name)
