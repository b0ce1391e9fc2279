"""Whether a connection of the caller's is in a transaction, as its library tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from lockfast.connections.telling import Kind

_SERVER_STATUS_IN_TRANS = 1
_PSYCOPG_UNSETTLED = (1, 4)
"""What psycopg calls ACTIVE, a statement under way, and UNKNOWN, a connection that broke."""


def refuse_open(connection: Any, kind: Kind, *, what: str) -> None:  # noqa: ANN401 - anybody's
    """Refuse one in a transaction, to whoever commits for himself."""
    if _is_open(connection, kind.library):
        raise ConfigurationError(
            f"{what} commits each attempt, and this connection is in a transaction of yours: "
            "commit or roll back first, or read and write yourself and begin the whole "
            "transaction again on StaleRow"
        )


def is_over(connection: Any, library: str) -> bool:  # noqa: ANN401 - anybody's
    """Whether nothing of its transaction can be committed any more, also because it is closed."""
    return is_closed(connection, library) or not _is_open(connection, library)


def is_unanswered(connection: Any, library: str) -> bool:  # noqa: ANN401 - anybody's
    """Whether a commit that has just failed may have been sent, and was not answered.

    An answer leaves the connection open and idle, or still in the transaction.
    """
    if library == "psycopg" and not connection.closed:
        return int(connection.info.transaction_status) in _PSYCOPG_UNSETTLED
    return is_closed(connection, library)


def is_closed(connection: Any, library: str) -> bool:  # noqa: ANN401 - anybody's
    """Whether nothing can be sent by it any more."""
    if library == "psycopg":
        return bool(connection.closed)
    if library == "pymysql":
        return not connection.open
    try:
        connection.total_changes  # noqa: B018 - sqlite3 tells by refusing it
    except connection.ProgrammingError:
        return True
    return False


def refuse_autocommit(connection: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
    """Refuse one of SQLAlchemy's that commits every statement, to whoever may have to roll back."""
    bound = connection.get_bind() if hasattr(connection, "get_bind") else connection
    bound = getattr(bound, "sync_connection", None) or bound
    level = bound.get_execution_options().get("isolation_level")
    if level is None:  # then it is the engine's, which tells it nowhere else
        level = getattr(bound.dialect, "_on_connect_isolation_level", None)
    if level == "AUTOCOMMIT":
        raise ConfigurationError(
            "this connection of SQLAlchemy's commits every statement by itself, so that a claim "
            "could not be rolled back: give an engine whose isolation_level is not AUTOCOMMIT"
        )


def _is_open(connection: Any, library: str) -> bool:  # noqa: ANN401 - anybody's
    if library == "sqlite3":
        # One that was opened with autocommit=False says so even if nothing was asked of it.
        return bool(connection.in_transaction) and getattr(connection, "autocommit", 1) is not False
    if library == "psycopg":
        return int(connection.info.transaction_status) != 0
    if library == "sqlalchemy":
        return bool(connection.in_transaction())
    if library == "django":
        return bool(connection.in_atomic_block)
    return bool(getattr(connection, "server_status", 0) & _SERVER_STATUS_IN_TRANS)
