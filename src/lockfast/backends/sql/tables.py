"""The two tables of a server's store: how one knows that they are ours; what each has to say.

`door` has one row for each name, which stays: the capacity, the last token, how many stand in
`place`, and whoever came first to an empty door. `place` has a row for everybody else.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.backends.sql.steps import Ask, Rows, Steps
    from lockfast.model import Schema

FORMAT = 1

REMARK = f"Lockfast, format {FORMAT}"
"""What is remarked on the tables."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,47}")
_MAY_BE_NULL = "party"


class Tables(Protocol):
    """Where the tables are, and the statements that make, know and drop them."""

    @property
    def door(self) -> str:
        """The table of the names, as a statement says it."""
        ...

    @property
    def place(self) -> str:
        """The table of all others, as a statement says it."""
        ...

    @property
    def right_to_make(self) -> str:
        """What a user needs to make them, for people."""
        ...

    def as_schema(self) -> Schema:
        """Return for people what makes and what drops them."""
        ...

    def look(self) -> Ask:
        """Ask for the columns of both, and what is remarked on them."""
        ...

    def are_there(self, rows: Rows) -> bool:
        """Return whether the tables are there; raise if they are not ours, or too new."""
        ...

    def make(self) -> Steps[None]:
        """Make what is not there, however many do so at once."""
        ...

    def drop(self) -> Sequence[Ask]:
        """Drop them, with all that is in them."""
        ...


def check_name(option: str, name: str) -> None:
    """Refuse a name that would have to be quoted with care."""
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{option}={name!r}: 1 to 48 letters, digits or _ are accepted, a letter or _ first"
        )


def columns_of(columns: Mapping[str, str], *, quote: str = "") -> str:
    """Return the columns as a definition says them."""
    return ", ".join(
        f"{quote}{name}{quote} {kind}" + ("" if name == _MAY_BE_NULL else " NOT NULL")
        for name, kind in columns.items()
    )


def check_format(table: str, remark: str | None) -> None:
    """Refuse a table whose remark tells of a format that is newer than ours."""
    said = re.fullmatch(r"Lockfast, format (\d+)", remark or "")
    if said is not None and int(said[1]) > FORMAT:
        raise ConfigurationError(
            f"{table} was made by a newer Lockfast (format {said[1]}, this one knows {FORMAT}); "
            "upgrade this one"
        )


def check_columns(
    table: str, which: str, found: Mapping[str, str], expected: Mapping[str, str]
) -> None:
    """Refuse a table with other columns than ours; one without any is not there."""
    if found and found != expected:
        raise ConfigurationError(
            f"{table} is there and is not Lockfast's {which} table: "
            f"{_difference(found, expected)}; choose another table="
        )


def _difference(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    missing = [name for name in expected if name not in found]
    if missing:
        return f"it has no column {missing[0]!r}"
    strange = [name for name in found if name not in expected]
    if strange:
        return f"it has a column {strange[0]!r}"
    [other, *_] = [name for name in expected if found[name] != expected[name]]
    return f"its column {other!r} is {found[other]} instead of {expected[other]}"
