"""What a database says when two transactions were in each other's way: it can be tried again."""

from __future__ import annotations

from lockfast.connections.driver_errors import drivers_own, mysql_number

_STATES = frozenset({"40001", "40P01"})
"""PostgreSQL: the snapshot is too old, or a deadlock was ended."""
_NUMBERS = frozenset({1213, 1020})
"""MySQL: a deadlock was ended; MariaDB: the snapshot is too old."""
_BUSY_SNAPSHOT = 517
"""SQLite: the snapshot is too old. Waiting as long as it may for a lock is another matter."""


def is_conflict(error: BaseException) -> bool:
    """Whether nothing was wrong but the moment, and the transaction was or can be rolled back."""
    said = drivers_own(error)
    return (
        getattr(said, "sqlstate", None) in _STATES
        or mysql_number(said) in _NUMBERS
        or getattr(said, "sqlite_errorcode", None) == _BUSY_SNAPSHOT
    )
