"""One connection of the asyncio flavour, over asyncmy; `connection_threads` is its counterpart."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from asyncmy import Connection
from asyncmy.cursors import Cursor
from asyncmy.errors import MySQLError

from lockfast.backends.mysql import errors
from lockfast.errors import ConfigurationError
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.mysql.address import Address
    from lockfast.backends.sql.steps import Query, Rows
    from lockfast.runtime.clock import Clock

__all__ = ["DRIVER", "DriverError", "MysqlConnection"]

DRIVER = "asyncmy"
DriverError: type[Exception] = MySQLError

RECANCEL_SECONDS = 0.05
"""Interval at which a cancellation is repeated until it takes effect, in seconds."""


class MysqlConnection:
    """One connection; the event loop reads it all the time, so its end is noticed at once.

    A borrowed connection goes back to the application after each request.
    """

    is_borrowed = False

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.is_new: bool = True
        self.used_at: float = clock.now()
        self._clock = clock
        self._where = where
        self._loop = asyncio.get_running_loop()
        self._connection: Any = None

    async def connect(self, address: Address, *, deadline: float) -> None:
        """Connect to the server and log in, or raise the driver's error."""
        left = self._left(deadline)
        connection = Connection(  # type: ignore[no-untyped-call]
            **address.driver_settings(),
            charset="utf8mb4",
            autocommit=None,
            program_name="lockfast",
            connect_timeout=left,
        )
        # Store the connection before it connects. Otherwise a cancellation that comes just as the
        # connection is made would leave it open.
        self._connection = connection
        # The driver's own timeout covers only the first step of connecting.
        work = asyncio.ensure_future(connection.connect())
        try:
            await asyncio.wait([work], timeout=left)
        finally:
            is_late = not work.done()
            # Retrieve the outcome in any case, because nothing else retrieves it if the caller is
            # cancelled here.
            work.add_done_callback(_outcome)
            if is_late:
                self._give_up(work)
                # Abort a connection that is made at this very moment. Otherwise it would stay open,
                # because nothing else refers to it.
                work.add_done_callback(lambda _: _abort(connection))
        if is_late:
            await asyncio.wait([work])
            raise TimeoutError("no answer in time")
        work.result()

    def _give_up(self, work: asyncio.Future[Any]) -> None:
        """Cancel the task repeatedly until it has ended.

        The driver has no timeout once the server is reached. It connects with `asyncio.wait_for`,
        which in Python 3.11 swallows a cancellation that arrives just as the attempt finishes.
        """
        if not work.done():
            work.cancel()
            self._loop.call_later(RECANCEL_SECONDS, self._give_up, work)

    async def exchange(self, requests: Sequence[Query], *, deadline: float) -> list[Rows]:
        """Return the rows of each query, all in one round trip, or raise the driver's error.

        The answer to a writing statement is one row with the number of rows changed and the insert
        id. An error from the server leaves the connection as it was; after any other error the
        connection is closed.
        """
        connection, left = self._connection, self._left(deadline)
        if connection is None:
            raise errors.no_time(where=self._where)  # closed by an earlier timer
        # This timer closes the connection. The driver's own timeout works by cancelling, and costs
        # a task.
        timer = self._loop.call_later(left, self._disconnect)
        try:
            cursor = connection.cursor(Cursor)
            text = ";".join(cursor.mogrify(*one) for one in requests)
            await cursor.execute(text)
            answers = [await _rows(cursor)]
            while await cursor.nextset():
                answers.append(await _rows(cursor))
        except MySQLError as error:
            if not errors.is_answer(error):
                self._disconnect()
            raise
        except BaseException:
            self._disconnect()
            raise
        finally:
            timer.cancel()
        return answers

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock.now()
        if left <= 0:
            raise errors.no_time(where=self._where)
        return left

    @property
    def is_open(self) -> bool:
        """Whether the connection is usable, as far as this side knows."""
        return self._connection is not None and self._connection.connected

    def is_sound(self) -> bool:
        """Whether the server still keeps the connection open, judged without sending anything."""
        return self.is_open and self._is_sound(self._connection)

    def _is_sound(self, connection: Any) -> bool:  # noqa: ANN401 - the driver has no types
        # Only a private attribute of the driver shows whether the server has hung up. Data that was
        # not requested is the server's last message before it hangs up.
        proto = getattr(connection, "_proto", None)
        is_over = proto is None or proto.eof or proto.length > proto.pos
        return connection.connected and not is_over

    def close(self) -> None:
        """Close the connection; the server rolls back the open transaction."""
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if not self._loop.is_closed():
            _abort(connection)

    def _take_over(self, connection: Any) -> None:  # noqa: ANN401 - the driver has no types
        if connection.loop is not self._loop:
            raise ConfigurationError(
                f"{self._where}: the connection belongs to another event loop; make one in the "
                "loop that uses the locks"
            )
        self._connection = connection

    def _let_go(self) -> None:
        """Detach from the connection, leaving it as it was when it was taken over."""
        self._connection = None

    def abandon_in_child(self) -> None:
        """Abandon the parent's connection in a forked child, without sending anything on it."""
        connection, self._connection = self._connection, None
        transport = getattr(connection, "_transport", None)
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is not None:
            fork.abandon_socket(connection, sock.fileno())


def _outcome(work: asyncio.Future[Any]) -> BaseException | None:
    return None if work.cancelled() else work.exception()


def _abort(connection: Any) -> None:  # noqa: ANN401 - the driver has no types
    transport = getattr(connection, "_transport", None)
    if transport is not None:
        # A regular close waits until everything is sent, which may never happen.
        transport.abort()


async def _rows(cursor: Any) -> Rows:  # noqa: ANN401 - the driver has no types
    if cursor.description is None:
        return [(cursor.rowcount, cursor.lastrowid)]
    rows: Rows = await cursor.fetchall()
    return rows
