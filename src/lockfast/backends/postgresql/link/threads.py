"""One connection of the sync flavour, used by one thread at a time; `aio` is its pair."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from psycopg import OperationalError, pq
from psycopg.pq import ConnStatus, PollingStatus

from lockfast.backends.postgresql import refusals
from lockfast.backends.postgresql.addresses import conninfo_of
from lockfast.backends.postgresql.exchange import Exchange
from lockfast.platforms import here
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg.pq.abc import PGconn

    from lockfast.backends.postgresql.addresses import Address
    from lockfast.backends.postgresql.values import Rows
    from lockfast.backends.sql.steps import Ask
    from lockfast.runtime.clock import Clock

__all__ = ["Link"]


class Link:
    """One connection, used by one thread at a time.

    One that is lent goes back after each request; then `farewell` is asked before.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_connection",
        "_poll",
        "farewell",
        "prepared",
        "used_at",
        "where",
    )
    is_lent = False

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.where: str = where
        self.farewell: Sequence[Ask] = ()
        self.prepared: set[bytes] | None = None
        self.used_at: float = clock.now()
        self._clock = clock
        self._connection: PGconn | None = None
        self._poll = here.Poll()

    # -- connecting --------------------------------------------------------------------

    def connect(self, address: Address, *, deadline: float) -> None:
        """Try each host in turn, each for its share of the time."""
        attempts = address.attempts()
        for number, settings in enumerate(attempts):
            now = self._clock.now()
            until = now + (deadline - now) / (len(attempts) - number)
            try:
                self._dial(conninfo_of(settings), until)
            except (OperationalError, OSError) as error:
                self._break_off()
                if number + 1 == len(attempts):
                    raise refusals.unreachable(error, where=self.where) from error
            except BaseException:
                self._break_off()
                raise
            else:
                return

    def _dial(self, conninfo: str, until: float) -> None:
        connection = self._connection = pq.PGconn.connect_start(conninfo.encode())
        while True:
            if connection.status == ConnStatus.BAD:
                raise OperationalError(connection.get_error_message())
            status = connection.connect_poll()
            if status == PollingStatus.OK:
                break
            if status == PollingStatus.FAILED:
                raise OperationalError(connection.get_error_message())
            wanted = here.READ if status == PollingStatus.READING else here.WRITE
            # Anew each time: it may go on with another socket.
            poll = here.Poll()
            poll.register(connection.socket, wanted)
            if not poll.poll(_milliseconds(until - self._clock.now())):
                raise OperationalError("no connection in time")
        self._take_over(connection)

    def _take_over(self, connection: PGconn) -> None:
        self._connection = connection
        connection.nonblocking = 1
        connection.enter_pipeline_mode()
        self._poll.register(connection.socket, here.READ)

    # -- asking ------------------------------------------------------------------------

    def exchange(self, requests: Sequence[Ask], *, deadline: float) -> list[Rows]:
        """Return the rows of each, or raise the driver's error.

        An error of the server's leaves the connection as it was; after any other it is closed.
        """
        exchange = Exchange(self.connection, requests, prepared=self.prepared)
        try:
            self._drive(exchange, deadline)
        except BaseException:
            self._break_off()
            raise
        if exchange.error is not None:
            raise exchange.error
        return exchange.answers

    def _drive(self, exchange: Exchange, deadline: float) -> None:
        poll, now = self._poll, self._clock.now
        is_flushed = exchange.send()
        if not is_flushed:
            poll.modify(self.connection.socket, here.READ | here.WRITE)
        while True:
            if not poll.poll(_milliseconds(deadline - now())):
                raise TimeoutError("no answer in time")
            if not is_flushed and exchange.flush():
                is_flushed = True
                poll.modify(self.connection.socket, here.READ)
            if exchange.read():
                return

    @property
    def connection(self) -> PGconn:
        """The driver's connection."""
        if self._connection is None:
            raise OperationalError("the connection is closed")
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether it can be used, as far as is known here."""
        return self._connection is not None

    def is_sound(self) -> bool:
        """Whether the server still listens, as far as can be seen without asking it."""
        # Nothing is due, so what came is the end.
        return self._connection is not None and not self._poll.poll(0)

    def fileno(self) -> int:
        """Return what can be polled."""
        return self.connection.socket

    def close(self) -> None:
        """Let go of the connection; the server ends what it was doing for it, if it can."""
        self._break_off()

    def _break_off(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish()

    def _let_go(self) -> None:
        """Leave the connection as it was when it was taken over; raise if it is in use."""
        self.connection.exit_pipeline_mode()
        self._poll.unregister(self.connection.socket)
        self._connection = None

    def disinherit(self) -> None:
        """Let go, in a forked child, of what the parent uses: without a word to the server."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.status == ConnStatus.OK:
            forking.leak(connection)
            # Under the same number: whatever is closed there later is nothing.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, connection.socket)
            os.close(nothing)


def _milliseconds(left: float) -> float:
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left * 1000 + 1  # never too early
