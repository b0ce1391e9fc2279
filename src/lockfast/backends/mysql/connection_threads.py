"""One connection of the sync flavour, over PyMySQL; `connection_aio` is its counterpart."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pymysql
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor
from pymysql.err import MySQLError

from lockfast.backends.mysql import errors
from lockfast.platforms import here
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.mysql.address import Address
    from lockfast.backends.sql.steps import Query, Rows
    from lockfast.runtime.clock import Clock

__all__ = ["DRIVER", "DriverError", "MysqlConnection"]

DRIVER = "pymysql"
DriverError: type[Exception] = MySQLError


class MysqlConnection:
    """One connection, used by one thread at a time.

    A borrowed connection goes back to the application after each request.
    """

    __slots__ = ("__weakref__", "_clock", "_connection", "_patience", "_where", "is_new", "used_at")
    is_borrowed = False

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.is_new: bool = True
        self.used_at: float = clock.now()
        self._clock = clock
        self._where = where
        self._connection: Any = None

    def connect(self, address: Address, *, deadline: float) -> None:
        """Connect to the server and log in, or raise the driver's error."""
        left = self._left(deadline)
        connection = pymysql.Connection(
            **address.driver_settings(),
            # Otherwise PyMySQL loads all of the system's certificate authorities for each
            # connection, only to speak TLS with a server that it does not verify. That takes a
            # hundred times as long as logging in.
            ssl_disabled=address.tls is None,
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

    def exchange(self, requests: Sequence[Query], *, deadline: float) -> list[Rows]:
        """Return the rows of each query, all in one round trip, or raise the driver's error.

        The answer to a writing statement is one row with the number of rows changed and the insert
        id. An error from the server leaves the connection as it was; after any other error the
        connection is closed.
        """
        connection, left = self._connection, self._left(deadline)
        # The driver accepts timeouts only when it connects, but each request has a timeout of its
        # own.
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
            if not errors.is_answer(error):
                self._disconnect()
            raise
        except BaseException:
            self._disconnect()
            raise
        return answers

    def _takes_many(self) -> bool:
        """Whether statements may be sent together; a borrowed connection may not allow that."""
        return bool(self._connection.client_flag & CLIENT.MULTI_STATEMENTS)

    def _left(self, deadline: float) -> float:
        left = deadline - self._clock.now()
        if left <= 0:
            raise errors.no_time(where=self._where)
        return left

    @property
    def is_open(self) -> bool:
        """Whether the connection is usable, as far as this side knows."""
        return self._connection is not None and self._connection.open

    def is_sound(self) -> bool:
        """Whether the server still keeps the connection open, judged without sending anything."""
        return self.is_open and self._is_sound(self._connection)

    def _is_sound(self, connection: Any) -> bool:  # noqa: ANN401 - the driver has no types
        if not connection.open:
            return False
        poll = here.Poll()
        poll.register(connection._sock, here.READ)  # noqa: SLF001 - there is no public attribute
        # No reply is due, so anything to read means the end of the connection.
        return not poll.poll(0)

    def close(self) -> None:
        """Close the connection; the server rolls back the open transaction."""
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            # A regular close would wait for the socket, and the server needs no goodbye.
            connection._force_close()  # noqa: SLF001

    def _take_over(self, connection: Any) -> None:  # noqa: ANN401 - the driver has no types
        self._patience = connection._read_timeout, connection._write_timeout  # noqa: SLF001
        self._connection = connection

    def _let_go(self) -> None:
        """Detach from the connection, leaving it as it was when it was taken over."""
        connection, self._connection = self._connection, None
        connection._read_timeout, connection._write_timeout = self._patience  # noqa: SLF001

    def abandon_in_child(self) -> None:
        """Abandon the parent's connection in a forked child, without sending anything on it."""
        # Closing the descriptor here sends nothing, and the parent's descriptor stays open. Never
        # touch the driver's object again, because a thread of the parent may be inside its buffered
        # reader, whose lock is then held in the child for ever.
        connection, self._connection = self._connection, None
        sock = None if connection is None else connection._sock  # noqa: SLF001
        if sock is not None:
            fork.abandon((connection, connection._rfile))  # noqa: SLF001
            os.close(sock.detach())


def _rows(cursor: Any) -> Rows:  # noqa: ANN401 - the driver has no types
    if cursor.description is None:
        return [(cursor.rowcount, cursor.lastrowid)]
    rows: Rows = cursor.fetchall()
    return rows
