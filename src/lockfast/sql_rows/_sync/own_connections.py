# Generated from src/lockfast/sql_rows/_async/own_connections.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Connections that a function of the caller's makes for the claims of one worker.

One is kept between two requests, for the thread that it was made in: a connection of sqlite3 may
not be used by another. Who comes meanwhile, or from elsewhere, as the watchdog does, has one of its
own for the one request.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.connections._sync.callers import CallersConnection
from lockfast.connections.statements import Statement
from lockfast.runtime import forking
from lockfast.runtime import threads as runtime
from lockfast.sql_rows.transactions import refuse_autocommit

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

LEGACY = -1
"""What sqlite3 calls that, from Python 3.12 on."""
READ_COMMITTED = Statement("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


class OwnConnections:
    """Used, committed and closed by us."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        if not callable(connect):
            raise TypeError(
                f"connect is a function that returns a new connection, not {connect!r}; "
                "`engine.connect` of SQLAlchemy's is one"
            )
        self._connect = connect
        self._state = runtime.StateLock()
        self._home: tuple[int, int] | None = None
        self._kept: Any = None
        self._is_closed = False

    def use(self, work: Callable[[CallersConnection], T]) -> T:
        """Return what was done by a connection, and committed."""
        connection = self._taken()
        try:
            done = work(CallersConnection(connection))
            connection.commit()
        except BaseException:
            # It may have broken, or be in the middle of something: nothing of it is kept.
            _close(connection)
            raise
        self._give_back(connection)
        return done

    def _taken(self) -> Any:  # noqa: ANN401 - a driver's
        with self._state:
            if self._is_at_home():
                kept, self._kept = self._kept, None
                if kept is not None:
                    return kept
        connection = self._connect()
        try:
            _prepare(connection)
        except BaseException:
            _close(connection)
            raise
        return connection

    def _give_back(self, connection: Any) -> None:  # noqa: ANN401 - a driver's
        with self._state:
            if self._kept is None and self._is_at_home() and not self._is_closed:
                self._kept = connection
                return
        _close(connection)

    def _is_at_home(self) -> bool:
        here = os.getpid(), threading.get_ident()
        self._home = self._home or here  # that of the first request
        return self._home == here

    def close(self) -> None:
        """Close what is kept, if this is where it was made."""
        with self._state:
            self._is_closed = True
            kept, self._kept = self._kept, None
        if kept is None:
            return
        if self._is_at_home():
            _close(kept)
        else:
            forking.leak(kept)  # a forked child's goodbye would end the parent's session


def _close(connection: Any) -> None:  # noqa: ANN401 - a driver's
    with suppress(Exception):  # a broken one cannot say goodbye, and why is told elsewhere
        close = getattr(connection, "ensure_closed", None) or connection.close  # asyncmy has both
        close()


def _prepare(connection: Any) -> None:  # noqa: ANN401 - a driver's
    """Let each request be one transaction."""
    kind = CallersConnection(connection).kind
    if kind.library == "sqlite3":
        # The first write begins a transaction, and `commit` ends it.
        if hasattr(connection, "autocommit"):
            connection.rollback()
            connection.autocommit = LEGACY
        connection.isolation_level = ""
    elif kind.library == "psycopg":
        connection.set_autocommit(False)
    elif kind.library in {"pymysql", "asyncmy"}:
        connection.autocommit(False)
        # REPEATABLE READ, the default, would keep every row locked that it has looked at.
        callers = CallersConnection(connection)
        callers.run(READ_COMMITTED)
        connection.commit()
    elif kind.library == "sqlalchemy":
        refuse_autocommit(connection)
