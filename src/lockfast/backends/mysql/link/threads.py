"""One connection of the sync flavour, by PyMySQL; `aio` is its pair."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from lockfast.backends.mysql import refusals
from lockfast.platforms import here
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.mysql.addresses import Address
    from lockfast.backends.sql.steps import Ask, Rows
    from lockfast.runtime.clock import Clock

__all__ = ["DRIVER", "DriverError", "Link"]

DRIVER = "pymysql"
DriverError: type[Exception] = MySQLError


class Link:
    """One connection, used by one thread at a time.

    One that is lent goes back after each request.
    """

    __slots__ = ("__weakref__", "_clock", "_connection", "_patience", "_where", "used_at")
    is_lent = False

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.used_at: float = clock.now()
        self._clock = clock
        self._where = where
        self._connection: Any = None

    def connect(self, address: Address, *, deadline: float) -> None:
        """Reach the server and log in, or raise the driver's error."""
        left = self._left(deadline)
        connection = pymysql.Connection(
            **address.settings,
            # Else PyMySQL reads all authorities of the system for each connection, which takes a
            # hundred times as long as to log in, to speak TLS with whoever answers.
            ssl_disabled="ssl" not in address.settings,
            charset="utf8mb4",
            autocommit=None,
            client_flag=CLIENT.MULTI_STATEMENTS,
            program_name="lockfast",
            connect_timeout=left,
            read_timeout=left,
            write_timeout=left,
            defer_connect=True,
        )
        self._connection = connection
        connection.connect()

    def exchange(self, requests: Sequence[Ask], *, deadline: float) -> list[Rows]:
        """Return the rows of each, all in one round trip, or raise the driver's error.

        Of a statement that writes: one row, how many it changed, and its insert id. An error of
        the server's leaves the connection as it was; after any other it is closed.
        """
        connection, left = self._connection, self._left(deadline)
        # The driver takes them when it connects only, and each request has its own.
        connection._read_timeout = connection._write_timeout = left  # noqa: SLF001
        try:
            with connection.cursor(Cursor) as cursor:
                answers = []
                texts = [cursor.mogrify(*one) for one in requests]
                for text in [";".join(texts)] if self._takes_many() else texts:
                    cursor.execute(text)
                    answers.append(_rows(cursor))
                    while cursor.nextset():
                        answers.append(_rows(cursor))
        except MySQLError as error:
            if not refusals.is_answer(error):
                self._break_off()
            raise
        except BaseException:
            self._break_off()
            raise
        return answers

    def _takes_many(self) -> bool:
        """Whether statements may go together; one that was made by others may not have asked."""
        return bool(self._connection.client_flag & CLIENT.MULTI_STATEMENTS)

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock.now()
        if left <= 0:
            raise refusals.no_time(where=self._where)
        return left

    @property
    def is_open(self) -> bool:
        """Whether it can be used, as far as is known here."""
        return self._connection is not None and self._connection.open

    def is_sound(self) -> bool:
        """Whether the server still listens, as far as can be seen without asking it."""
        return self.is_open and self._is_sound(self._connection)

    def _is_sound(self, connection: Any) -> bool:  # noqa: ANN401 - it has no types
        if not connection.open:
            return False
        poll = here.Poll()
        poll.register(connection._sock, here.READ)  # noqa: SLF001 - it shows it nowhere
        # Nothing is due, so what came is the end.
        return not poll.poll(0)

    def close(self) -> None:
        """Let go of the connection; the server rolls back what it has not committed."""
        self._break_off()

    def _break_off(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # Its polite way would wait for the socket, and the server needs no goodbye.
            connection._force_close()  # noqa: SLF001

    def _take_over(self, connection: Any) -> None:  # noqa: ANN401 - it has no types
        self._patience = connection._read_timeout, connection._write_timeout  # noqa: SLF001
        self._connection = connection

    def _let_go(self) -> None:
        """Leave the connection as it was when it was taken over."""
        connection, self._connection = self._connection, None
        connection._read_timeout, connection._write_timeout = self._patience  # noqa: SLF001

    def disinherit(self) -> None:
        """Let go, in a forked child, of what the parent uses: without a word to the server."""
        # Closed here, it stays open there: nothing is sent for it. By its number, and the driver's
        # object is never touched again: a thread of the parent may be inside its buffered reader,
        # whose lock is then held in the child for ever.
        connection, self._connection = self._connection, None
        sock = None if connection is None else connection._sock  # noqa: SLF001
        if sock is not None:
            forking.leak((connection, connection._rfile))  # noqa: SLF001
            os.close(sock.detach())


def _rows(cursor: Any) -> Rows:  # noqa: ANN401 - it has no types
    if cursor.description is None:
        return [(cursor.rowcount, cursor.lastrowid)]
    rows: Rows = cursor.fetchall()
    return rows
