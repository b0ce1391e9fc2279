"""One connection of the asyncio flavour, by asyncmy; `threads` is its pair."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from asyncmy import Connection
from asyncmy.cursors import Cursor
from asyncmy.errors import MySQLError

from lockfast.backends.mysql import refusals
from lockfast.errors import ConfigurationError
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.mysql.addresses import Address
    from lockfast.backends.sql.steps import Ask, Rows
    from lockfast.runtime.clock import Clock

__all__ = ["DRIVER", "DriverError", "Link"]

DRIVER = "asyncmy"
DriverError: type[Exception] = MySQLError

CANCEL_AGAIN = 0.05
"""So long after a cancellation it is looked whether it was heard."""


class Link:
    """One connection; the loop reads it all the time, so that its end is seen when it comes.

    One that is lent goes back after each request.
    """

    is_lent = False

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.used_at: float = clock.now()
        self._clock = clock
        self._where = where
        self._loop = asyncio.get_running_loop()
        self._connection: Any = None

    async def connect(self, address: Address, *, deadline: float) -> None:
        """Reach the server and log in, or raise the driver's error."""
        left = self._left(deadline)
        connection = Connection(  # type: ignore[no-untyped-call]
            **address.settings,
            charset="utf8mb4",
            autocommit=None,
            program_name="lockfast",
            connect_timeout=left,
        )
        # Ours before it is made: a cancellation at the moment when it is would leave it open.
        self._connection = connection
        # Its own limit is for the first step alone.
        work = asyncio.ensure_future(connection.connect())
        try:
            await asyncio.wait([work], timeout=left)
        finally:
            is_late = not work.done()
            # Known, whatever it is: nobody asks for it who is cancelled here.
            work.add_done_callback(_outcome)
            if is_late:
                self._give_up(work)
                # What was made at that very moment would stay open: nobody else knows it.
                work.add_done_callback(lambda _: _abort(connection))
        if is_late:
            await asyncio.wait([work])
            raise TimeoutError("no answer in time")
        work.result()

    def _give_up(self, work: asyncio.Future[Any]) -> None:
        """Cancel it until it has ended: the driver has no limit once the server is reached.

        It reaches it by `asyncio.wait_for`, which swallows a cancellation that comes when it has,
        in Python 3.11.
        """
        if not work.done():
            work.cancel()
            self._loop.call_later(CANCEL_AGAIN, self._give_up, work)

    async def exchange(self, requests: Sequence[Ask], *, deadline: float) -> list[Rows]:
        """Return the rows of each, all in one round trip, or raise the driver's error.

        Of a statement that writes: one row, how many it changed, and its insert id. An error of
        the server's leaves the connection as it was; after any other it is closed.
        """
        connection, left = self._connection, self._left(deadline)
        if connection is None:
            raise refusals.no_time(where=self._where)  # the timer of the last one has cut it
        # A timer that cuts the connection: the driver's own works by cancelling, and costs a task.
        timer = self._loop.call_later(left, self._break_off)
        try:
            cursor = connection.cursor(Cursor)
            text = ";".join(cursor.mogrify(*one) for one in requests)
            await cursor.execute(text)
            answers = [await _rows(cursor)]
            while await cursor.nextset():
                answers.append(await _rows(cursor))
        except MySQLError as error:
            if not refusals.is_answer(error):
                self._break_off()
            raise
        except BaseException:
            self._break_off()
            raise
        finally:
            timer.cancel()
        return answers

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock.now()
        if left <= 0:
            raise refusals.no_time(where=self._where)
        return left

    @property
    def is_open(self) -> bool:
        """Whether it can be used, as far as is known here."""
        return self._connection is not None and self._connection.connected

    def is_sound(self) -> bool:
        """Whether the server still listens, as far as can be seen without asking it."""
        return self.is_open and self._is_sound(self._connection)

    def _is_sound(self, connection: Any) -> bool:  # noqa: ANN401 - it has no types
        # It tells this nowhere else; and what came unasked is a goodbye.
        proto = getattr(connection, "_proto", None)
        is_over = proto is None or proto.eof or proto.length > proto.pos
        return connection.connected and not is_over

    def close(self) -> None:
        """Let go of the connection; the server rolls back what it has not committed."""
        self._break_off()

    def _break_off(self) -> None:
        connection, self._connection = self._connection, None
        if not self._loop.is_closed():
            _abort(connection)

    def _take_over(self, connection: Any) -> None:  # noqa: ANN401 - it has no types
        if connection.loop is not self._loop:
            raise ConfigurationError(
                f"{self._where}: the connection belongs to another event loop; make one in the "
                "loop that uses the locks"
            )
        self._connection = connection

    def _let_go(self) -> None:
        """Leave the connection as it was when it was taken over."""
        self._connection = None

    def disinherit(self) -> None:
        """Let go, in a forked child, of what the parent uses: without a word to the server."""
        connection, self._connection = self._connection, None
        transport = getattr(connection, "_transport", None)
        sock = None if transport is None else transport.get_extra_info("socket")
        if sock is not None:
            forking.leak(connection)
            # Under the same number: whatever is closed there later is nothing.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, sock.fileno())
            os.close(nothing)


def _outcome(work: asyncio.Future[Any]) -> BaseException | None:
    return None if work.cancelled() else work.exception()


def _abort(connection: Any) -> None:  # noqa: ANN401 - it has no types
    transport = getattr(connection, "_transport", None)
    if transport is not None:
        # Its own way waits until all was sent, which may be never.
        transport.abort()


async def _rows(cursor: Any) -> Rows:  # noqa: ANN401 - it has no types
    if cursor.description is None:
        return [(cursor.rowcount, cursor.lastrowid)]
    rows: Rows = await cursor.fetchall()
    return rows
