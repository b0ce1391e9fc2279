"""What a statement did, in either flavour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockfast.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Answer:
    """How many rows were changed, or which were given."""

    changed: int = 0
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def named(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def of_change(rowcount: int) -> Answer:
    """Return the answer to a statement that gives no rows.

    MySQL may count only rows that are other than before, not all that were found: with
    PyMySQL and asyncmy by default, with SQLAlchemy not.
    """
    if rowcount < 0:
        raise ConfigurationError(
            "the driver does not say how many rows were changed, as inside a pipeline of "
            "psycopg's: leave the pipeline first"
        )
    return Answer(changed=rowcount)
