"""The two tables of a server's store: how they are defined, and how they are recognised as ours.

`door` has one row per name, which stays when all claims have left. It has the capacity, the last
token, the number of rows in `place`, and the entry of the first claim to arrive at an empty door.
`place` has a row for every other entry.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from lockfast.backends.sql.steps import Query
from lockfast.errors import ConfigurationError
from lockfast.model import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.sql.steps import Rows, Steps

TABLE_FORMAT = 1

TABLE_COMMENT = f"Lockfast, format {TABLE_FORMAT}"
"""The comment on the tables."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_MAY_BE_NULL = "party"


class ColumnTypes(NamedTuple):
    """The types that a server has for the columns of the tables."""

    key: str
    text: str
    long_text: str
    number: str
    state: str
    seconds: str

    def of_claim(self) -> dict[str, str]:
        """Return the columns of an entry."""
        return {
            **dict.fromkeys(("id", "client"), self.text),
            "owner": self.long_text,
            "party": self.text,
            "weight": self.number,
            **dict.fromkeys(("ttl", "lock_delay", "min_hold"), self.seconds),
            "standing": self.state,
            **dict.fromkeys(("until", "since"), self.seconds),
            "token": self.number,
            "bell": self.text,
        }

    def of_door(self) -> dict[str, str]:
        """Return the columns of `door`."""
        numbers = dict.fromkeys(("capacity", "last_token", "crowd", "head"), self.number)
        return {"key": self.key, **self.of_claim(), **numbers}

    def of_place(self) -> dict[str, str]:
        """Return the columns of `place`."""
        return {"key": self.key, "arrived": self.number, **self.of_claim()}


@dataclass(frozen=True)
class Tables:
    """Where the tables are, and the statements that create, recognise and drop them."""

    table: str = "lockfast"

    right_to_make: ClassVar[str]
    """The privilege that a user needs to create the tables, for messages."""
    columns: ClassVar[tuple[Mapping[str, str], Mapping[str, str]]]
    """The columns of `door` and of `place`, each with its type as the server reports it."""

    def __post_init__(self) -> None:
        check_name("table", self.table)

    @property
    def names(self) -> tuple[str, str]:
        """The names of both tables in the server's catalogue."""
        return f"{self.table}_door", f"{self.table}_place"

    @property
    def door(self) -> str:
        """The table of names, quoted for a statement."""
        return self._quoted(self.names[0])

    @property
    def place(self) -> str:
        """The table of all other entries, quoted for a statement."""
        return self._quoted(self.names[1])

    def _quoted(self, name: str) -> str:
        raise NotImplementedError

    def fill(self, *templates: str) -> list[str]:
        """Return the templates with the names of the tables for `{door}` and `{place}`."""
        return [one.format(door=self.door, place=self.place) for one in templates]

    # -- creating and dropping them ----------------------------------------------------

    def definition(self) -> list[str]:
        """Return the statements that create what is missing."""
        raise NotImplementedError

    def removal(self) -> list[str]:
        """Return the statement that drops the tables, with everything in them."""
        return [f"DROP TABLE IF EXISTS {self.door}, {self.place}"]

    def as_schema(self) -> Schema:
        """Return the statements that create and drop the tables, for display."""
        return Schema((self.door, self.place), tuple(self.definition()), tuple(self.removal()))

    def make(self) -> Steps[None]:
        """Create what is missing, even if many clients do so at once."""
        yield [Query(one) for one in self.definition()]

    def drop(self) -> Sequence[Query]:
        """Drop the tables, with everything in them."""
        return [Query(one) for one in self.removal()]

    # -- recognising them --------------------------------------------------------------

    def look(self) -> Query:
        """Read the columns of both tables, and their comments."""
        raise NotImplementedError

    def are_there(self, rows: Rows) -> bool:
        """Return whether the tables exist; raise if they are not ours or of a newer format.

        There is a row for each column: `door` or `place`, the column, its type, and the comment on
        the table.
        """
        tables = {"door": self.door, "place": self.place}
        found: dict[str, dict[str, str]] = {which: {} for which in tables}
        for which, column, kind, remark in rows:
            found[which][column] = kind
            _check_format(tables[which], remark)
        for which, expected in zip(tables, self.columns, strict=True):
            _check_columns(tables[which], which, found[which], expected)
        return all(found.values())


def check_name(option: str, name: str) -> None:
    """Refuse a name that would need careful quoting."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{option}={name!r}: 1 to 48 letters, digits or _ are accepted, a letter or _ first"
        )


def columns_of(columns: Mapping[str, str], *, quote: str = "") -> str:
    """Return the columns as text for CREATE TABLE."""
    return ", ".join(
        f"{quote}{name}{quote} {kind}" + ("" if name == _MAY_BE_NULL else " NOT NULL")
        for name, kind in columns.items()
    )


def _check_format(table: str, remark: str | None) -> None:
    """Refuse a table whose comment names a newer format than ours."""
    said = re.fullmatch(r"Lockfast, format (\d+)", remark or "")
    if said is not None and int(said[1]) > TABLE_FORMAT:
        raise ConfigurationError(
            f"{table} was made by a newer Lockfast (format {said[1]}, "
            f"this one knows {TABLE_FORMAT}); "
            "upgrade this one"
        )


def _check_columns(
    table: str, which: str, found: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    """Refuse a table whose columns are not ours; accept an empty `found`, a missing table."""
    if found and found != expected:
        raise ConfigurationError(
            f"{table} is there and is not Lockfast's {which} table: "
            f"{_difference(found, expected)}; choose another table="
        )


def _difference(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    missing = [name for name in expected if name not in found]
    if missing:
        return f"it has no column {missing[0]!r}"
    mismatch = [name for name in found if name not in expected]
    if mismatch:
        return f"it has a column {mismatch[0]!r}"
    [other, *_] = [name for name in expected if found[name] != expected[name]]
    return f"its column {other!r} is {found[other]} instead of {expected[other]}"
