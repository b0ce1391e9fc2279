"""The databases, as far as their words differ: how a name is quoted, and how a row is locked.

Nothing of a caller's gets into a statement but as a quoted name or as a value beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lockfast.errors import ConfigurationError

Table: TypeAlias = str | Sequence[str]
"""A table's name; with a schema or a database before it, the two as a tuple."""

_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One kind of database."""

    name: str
    quote: str
    longest: int | None
    """How many bytes a name may have; PostgreSQL would cut it off and say nothing."""
    for_update: str
    """What lets a SELECT lock what it reads, and read what is there now."""

    def quoted(self, name: str) -> str:
        """Return the name of a column as a statement has it, whatever stands in it."""
        if not isinstance(name, str):
            raise TypeError(f"the name of a table or a column is a str, not {type(name).__name__}")
        try:
            size = len(name.encode())
        except UnicodeEncodeError:
            size = 0
        if not size or "\0" in name or (self.longest and size > self.longest):
            most = f" of at most {self.longest} bytes" if self.longest else ""
            raise ConfigurationError(
                f"{name!r} cannot be the name of a table or a column: {self.name} takes a text"
                f"{most}, not empty and without NUL"
            )
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def quoted_table(self, table: Table) -> str:
        """Return the table as a statement has it; a dot in a str belongs to the name."""
        if isinstance(table, str):
            return self.quoted(table)
        parts = tuple(table)
        if len(parts) != _PARTS:
            raise ConfigurationError(
                f"{parts!r} names no table: give a str, or (schema, table) as a tuple of two"
            )
        return ".".join(map(self.quoted, parts))


# SQLite takes a name in double quotes that is no column for a text, so that a missing column
# would be compared and not refused. A name in backticks can only be a name.
SQLITE = Dialect(name="SQLite", quote="`", longest=None, for_update="")
POSTGRESQL = Dialect(name="PostgreSQL", quote='"', longest=63, for_update=" FOR UPDATE")
MYSQL = Dialect(name="MySQL", quote="`", longest=256, for_update=" FOR UPDATE")
