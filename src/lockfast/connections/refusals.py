"""What a database says of a table, a column or a constraint that is not there.

All other errors of a caller's connection stay the driver's own, since the caller, or the
framework around it, may know what to do about them: begin the transaction again, say.
"""

from __future__ import annotations

from lockfast.connections.driver_errors import drivers_own, library_of, mysql_number

# By what PostgreSQL calls sqlstate: no column, no table, no schema, no unique key.
_STATES = frozenset({"42703", "42P01", "3F000", "42P10"})
# By the number that MySQL says first: no column, no table, no database.
_NUMBERS = frozenset({1054, 1146, 1049})
_PHRASES = ("no such column", "no such table", "has no column named", "ON CONFLICT clause does not")


def tells_of_missing(error: Exception) -> bool:
    """Whether the statement named something that is not there."""
    said = drivers_own(error)
    if library_of(said) == "sqlite3":
        return any(one in str(said) for one in _PHRASES)
    return getattr(said, "sqlstate", None) in _STATES or mysql_number(said) in _NUMBERS
