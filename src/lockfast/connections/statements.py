"""A statement of which the values stay apart from the words, in whatever way a driver marks them.

    Statement("UPDATE ", table, " SET n = ", Value(5), " WHERE id = ", Value(key))

The words are trusted: written in our source, or quoted by a dialect.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Marks(Enum):
    """How a driver is told where its values go."""

    QUESTION = "?"
    PERCENT = "%s"
    NAMED = ":value"
    """By the `text()` of SQLAlchemy, which writes it as the driver below it wants."""


@dataclass(frozen=True, slots=True)
class Value:
    """What goes to the database as a parameter, always."""

    value: object


class Statement:
    """Words and values in their order."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str | Value | Statement) -> None:
        self.parts: tuple[str | Value, ...] = tuple(_flat(parts))

    def words(self, marks: Marks) -> str:
        """Return the text, with a mark where each value goes."""
        return "".join(_written(self.parts, marks))

    def values(self) -> tuple[Any, ...]:
        """Return what goes there, in order."""
        return tuple(one.value for one in self.parts if isinstance(one, Value))

    def named_values(self) -> dict[str, Any]:
        """Return what goes there, by the names of `Marks.NAMED`."""
        return {f"value_{number}": value for number, value in enumerate(self.values())}


def joined(separator: str, parts: Iterable[Statement]) -> Statement:
    """Return one statement of several, with the separator between them."""
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


def _written(parts: Iterable[str | Value], marks: Marks) -> Iterator[str]:
    number = 0
    for one in parts:
        if isinstance(one, Value):
            yield f":value_{number}" if marks is Marks.NAMED else marks.value
            number += 1
        # A name of the caller's may hold what the driver would take for a mark.
        elif marks is Marks.PERCENT:
            yield one.replace("%", "%%")
        elif marks is Marks.NAMED:
            yield one.replace(":", r"\:")
        else:
            yield one
