"""A statement whose values stay apart from its text, for any parameter style of a driver.

    Statement("UPDATE ", table, " SET n = ", Value(5), " WHERE id = ", Value(key))

The text is trusted, because it comes from our source code, or was quoted by a dialect.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# The databases, as far as their SQL differs in how names are quoted and rows are locked.
#
# The caller's arguments become part of a statement only as quoted names, or as parameters.

Table: TypeAlias = str | Sequence[str]
"""A table's name, or a tuple of its schema (or database) and its name."""

_PARTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDialect:
    """One kind of database."""

    name: str
    quote: str
    longest: int | None
    """Maximum length of a name in bytes, as PostgreSQL would truncate a longer name silently."""
    for_update: str
    """The clause that makes a SELECT lock the rows that it reads, and read their current state."""

    def quoted(self, name: str) -> str:
        """Return the quoted name of a column, whatever characters the name contains."""
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
        """Return the quoted name of a table; a dot in a str is part of the name."""
        if isinstance(table, str):
            return self.quoted(table)
        parts = tuple(table)
        if len(parts) != _PARTS:
            raise ConfigurationError(
                f"{parts!r} names no table: give a str, or (schema, table) as a tuple of two"
            )
        return ".".join(map(self.quoted, parts))


# In SQLite, a name in double quotes that is no column is taken for a string. A missing column would
# then be compared as text, and not refused. A name in backticks can only be a name.
SQLITE = DatabaseDialect(name="SQLite", quote="`", longest=None, for_update="")
POSTGRESQL = DatabaseDialect(name="PostgreSQL", quote='"', longest=63, for_update=" FOR UPDATE")
MYSQL = DatabaseDialect(name="MySQL", quote="`", longest=256, for_update=" FOR UPDATE")


class ParameterStyle(Enum):
    """How a driver's placeholders for values are written."""

    QUESTION = "?"
    PERCENT = "%s"
    NAMED = ":value"
    """The style of SQLAlchemy's `text()`, which SQLAlchemy converts to the driver's style."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value, which is always passed to the database as a parameter."""

    value: object


class Statement:
    """Text and values, in order."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str | Value | Statement) -> None:
        self.parts: tuple[str | Value, ...] = tuple(_flat(parts))

    def words(self, marks: ParameterStyle) -> str:
        """Return the text, with a placeholder for each value."""
        return "".join(_written(self.parts, marks))

    def values(self) -> tuple[Any, ...]:
        """Return the values, in order."""
        return tuple(one.value for one in self.parts if isinstance(one, Value))

    def named_values(self) -> dict[str, Any]:
        """Return the values, under the names that `ParameterStyle.NAMED` gives to them."""
        return {f"value_{number}": value for number, value in enumerate(self.values())}


def joined(separator: str, parts: Iterable[Statement]) -> Statement:
    """Return one statement that joins several, with the separator between them."""
    found: list[str | Statement] = []
    for one in parts:
        found += [separator, one] if found else [one]
    return Statement(*found)


def _flat(parts: Iterable[str | Value | Statement]) -> Iterator[str | Value]:
    for one in parts:
        if isinstance(one, Statement):
            yield from one.parts
        else:
            yield one


def _written(parts: Iterable[str | Value], marks: ParameterStyle) -> Iterator[str]:
    number = 0
    for one in parts:
        if isinstance(one, Value):
            yield f":value_{number}" if marks is ParameterStyle.NAMED else marks.value
            number += 1
        # A name from the caller may contain characters that the driver would treat as a
        # placeholder.
        elif marks is ParameterStyle.PERCENT:
            yield one.replace("%", "%%")
        elif marks is ParameterStyle.NAMED:
            yield one.replace(":", r"\:")
        else:
            yield one


# How a 32-bit column rounds a number that needs 64 bits, without an error or a warning.
#
# No single statement returns the type of a column in all databases, so the number is read back
# after it was written.


def in_32_bits(number: float) -> float:
    """Return the number as a PostgreSQL REAL or a MySQL FLOAT stores it."""
    [kept] = struct.unpack("f", struct.pack("f", number))
    return float(kept)


def is_rounded(found: int, written: int) -> bool:
    """Return whether `found` is `written`, rounded to 32 bits or to fewer decimal digits.

    Any other number may come from another writer. MySQL shows a FLOAT with six digits.
    """
    kept = int(in_32_bits(written))
    return found != written and any(
        found in (round(written, -digits), round(kept, -digits))
        for digits in range(len(str(written)))
    )
