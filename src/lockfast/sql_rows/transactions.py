"""Whether a caller's connection is in a transaction, according to its library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.dbapi.drivers import driver_error, mysql_number
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from lockfast.dbapi.drivers import DriverKind

# The errors of databases for a conflict between two transactions, after which a transaction can be
# retried.

_STATES = frozenset({"40001", "40P01"})
"""PostgreSQL's states for a snapshot that is too old, and for a resolved deadlock."""
_NUMBERS = frozenset({1213, 1020})
"""MySQL's number for a resolved deadlock, and MariaDB's for a snapshot that is too old."""
_BUSY_SNAPSHOT = 517
"""SQLite's code for a snapshot that is too old. A timeout while waiting for a lock has another
code.
"""


def is_conflict(error: BaseException) -> bool:
    """Return whether the error is only a conflict, so that the transaction can be repeated."""
    own = driver_error(error)
    return (
        getattr(own, "sqlstate", None) in _STATES
        or mysql_number(own) in _NUMBERS
        or getattr(own, "sqlite_errorcode", None) == _BUSY_SNAPSHOT
    )


_SERVER_STATUS_IN_TRANS = 1
_PSYCOPG_UNSETTLED = (1, 4)
"""psycopg's ACTIVE (a statement is under way) and UNKNOWN (the connection is broken)."""


def refuse_open(connection: Any, kind: DriverKind, *, what: str) -> None:  # noqa: ANN401 - any driver
    """Refuse a connection that is in a transaction, for an operation that commits by itself."""
    if _is_open(connection, kind.library):
        raise ConfigurationError(
            f"{what} commits each attempt, and this connection is in a transaction of yours: "
            "commit or roll back first, or read and write yourself and begin the whole "
            "transaction again on StaleRow"
        )


def is_over(connection: Any, library: str) -> bool:  # noqa: ANN401 - any driver
    """Return whether the connection has no open transaction, or is closed."""
    return is_closed(connection, library) or not _is_open(connection, library)


def is_unanswered(connection: Any, library: str) -> bool:  # noqa: ANN401 - any driver
    """Return whether a commit that has just failed may have been sent without being answered.

    If the commit was answered, the connection is open, and idle or still in the transaction.
    """
    if library == "psycopg" and not connection.closed:
        return int(connection.info.transaction_status) in _PSYCOPG_UNSETTLED
    return is_closed(connection, library)


def is_closed(connection: Any, library: str) -> bool:  # noqa: ANN401 - any driver
    """Return whether nothing can be sent on the connection any more."""
    if library == "psycopg":
        return bool(connection.closed)
    if library == "pymysql":
        return not connection.open
    try:
        connection.total_changes  # noqa: B018 - sqlite3 raises if it is closed
    except connection.ProgrammingError:
        return True
    return False


def refuse_autocommit(connection: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
    """Refuse an SQLAlchemy connection that commits every statement, because it cannot roll back."""
    bound = connection.get_bind() if hasattr(connection, "get_bind") else connection
    bound = getattr(bound, "sync_connection", None) or bound
    level = bound.get_execution_options().get("isolation_level")
    if level is None:  # the engine's level applies then; no public attribute has it
        level = getattr(bound.dialect, "_on_connect_isolation_level", None)
    if level == "AUTOCOMMIT":
        raise ConfigurationError(
            "this connection of SQLAlchemy's commits every statement by itself, so that a claim "
            "could not be rolled back: give an engine whose isolation_level is not AUTOCOMMIT"
        )


def _is_open(connection: Any, library: str) -> bool:  # noqa: ANN401 - any driver
    if library == "sqlite3":
        # With autocommit=False, sqlite3 reports a transaction even before the first statement.
        return bool(connection.in_transaction) and getattr(connection, "autocommit", 1) is not False
    if library == "psycopg":
        return int(connection.info.transaction_status) != 0
    if library == "sqlalchemy":
        return bool(connection.in_transaction())
    if library == "django":
        return bool(connection.in_atomic_block)
    return bool(getattr(connection, "server_status", 0) & _SERVER_STATUS_IN_TRANS)
