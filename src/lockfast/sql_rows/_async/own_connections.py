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

from lockfast.connections._async.callers import AsyncCallersConnection
from lockfast.connections.statements import Statement
from lockfast.runtime import aio as runtime
from lockfast.runtime import forking
from lockfast.sql_rows.transactions import refuse_autocommit

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

LEGACY = -1
"""What sqlite3 calls that, from Python 3.12 on."""
READ_COMMITTED = Statement("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")


class AsyncOwnConnections:
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

    async def use(self, work: Callable[[AsyncCallersConnection], Awaitable[T]]) -> T:
        """Return what was done by a connection, and committed."""
        connection = await self._taken()
        try:
            done = await work(AsyncCallersConnection(connection))
            await connection.commit()
        except BaseException:
            # It may have broken, or be in the middle of something: nothing of it is kept.
            await _close(connection)
            raise
        await self._give_back(connection)
        return done

    async def _taken(self) -> Any:  # noqa: ANN401 - a driver's
        with self._state:
            if self._is_at_home():
                kept, self._kept = self._kept, None
                if kept is not None:
                    return kept
        connection = await self._connect()
        try:
            await _prepare(connection)
        except BaseException:
            await _close(connection)
            raise
        return connection

    async def _give_back(self, connection: Any) -> None:  # noqa: ANN401 - a driver's
        with self._state:
            if self._kept is None and self._is_at_home() and not self._is_closed:
                self._kept = connection
                return
        await _close(connection)

    def _is_at_home(self) -> bool:
        here = os.getpid(), threading.get_ident()
        self._home = self._home or here  # that of the first request
        return self._home == here

    async def aclose(self) -> None:
        """Close what is kept, if this is where it was made."""
        with self._state:
            self._is_closed = True
            kept, self._kept = self._kept, None
        if kept is None:
            return
        if self._is_at_home():
            await _close(kept)
        else:
            forking.leak(kept)  # a forked child's goodbye would end the parent's session


async def _close(connection: Any) -> None:  # noqa: ANN401 - a driver's
    with suppress(Exception):  # a broken one cannot say goodbye, and why is told elsewhere
        close = getattr(connection, "ensure_closed", None) or connection.close  # asyncmy has both
        await close()


async def _prepare(connection: Any) -> None:  # noqa: ANN401 - a driver's
    """Let each request be one transaction."""
    kind = AsyncCallersConnection(connection).kind
    if kind.library == "sqlite3":
        # The first write begins a transaction, and `commit` ends it.
        if hasattr(connection, "autocommit"):
            connection.rollback()
            connection.autocommit = LEGACY
        connection.isolation_level = ""
    elif kind.library == "psycopg":
        await connection.set_autocommit(False)
    elif kind.library in {"pymysql", "asyncmy"}:
        await connection.autocommit(False)
        # REPEATABLE READ, the default, would keep every row locked that it has looked at.
        callers = AsyncCallersConnection(connection)
        await callers.run(READ_COMMITTED)
        await connection.commit()
    elif kind.library == "sqlalchemy":
        refuse_autocommit(connection)
