"""PostgreSQL connection and subscription for threads."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from psycopg import Error, OperationalError
from psycopg.pq import PollingStatus

from lockfast.backends.postgresql import errors
from lockfast.backends.postgresql.connection_setup import LibpqConnection
from lockfast.backends.postgresql.exchange import Exchange
from lockfast.backends.postgresql.notify import (
    PROOF_TIMEOUT_SECONDS,
    listen_statement,
    no_longer_wanted,
    unlisten_statement,
    unproven,
)
from lockfast.backends.sql.steps import Query
from lockfast.backends.waiting.listener_threads import Listener
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.pq.abc import PGconn

    from lockfast.backends.postgresql.address import Address
    from lockfast.backends.postgresql.exchange import Rows
    from lockfast.runtime.clock import Clock

__all__ = ["PostgresqlConnection", "PostgresqlSubscription"]


# One connection of the sync flavour; `connection_aio` has its counterpart.


class PostgresqlConnection(LibpqConnection):
    """One connection, used by one thread at a time."""

    __slots__ = ("_poll",)

    def __init__(self, *, clock: Clock, where: str) -> None:
        super().__init__(clock=clock, where=where)
        self._poll = here.Poll()

    # -- connecting --------------------------------------------------------------------

    def connect(self, address: Address, *, deadline: float) -> None:
        """Connect to the first host that accepts; each host gets its share of the time."""
        for settings, until, is_last in self._attempts(address, deadline):
            try:
                self._dial(settings, until)
            except (OperationalError, OSError) as error:
                self._disconnect()
                if is_last:
                    raise errors.unreachable(error, where=self.where) from error
            except BaseException:
                self._disconnect()
                raise
            else:
                return

    def _dial(self, settings: dict[str, str], until: float) -> None:
        for number, status in self._dialled(settings):
            # Use a new poll object each time, because libpq may continue with another socket.
            poll = here.Poll()
            poll.register(number, here.READ if status == PollingStatus.READING else here.WRITE)
            if not poll.poll(_milliseconds(until - self._clock.now())):
                raise OperationalError("no connection in time")
        self._take_over(self.libpq)

    def _take_over(self, connection: PGconn) -> None:
        self._connection = connection
        connection.nonblocking = 1
        connection.enter_pipeline_mode()
        self._poll.register(connection.socket, here.READ)

    # -- requests ----------------------------------------------------------------------

    def exchange(self, requests: Sequence[Query], *, deadline: float) -> list[Rows]:
        """Return the rows of each query, or raise the driver's error.

        An error from the server leaves the connection as it was; after any other error the
        connection is closed.
        """
        exchange = Exchange(self.libpq, requests, prepared=self.prepared)
        try:
            self._drive(exchange, deadline)
        except BaseException:
            self._disconnect()
            raise
        if exchange.error is not None:
            raise exchange.error
        return exchange.answers

    def _drive(self, exchange: Exchange, deadline: float) -> None:
        poll, now = self._poll, self._clock.now
        is_flushed = exchange.send()
        if not is_flushed:
            poll.modify(self.libpq.socket, here.READ | here.WRITE)
        while True:
            if not poll.poll(_milliseconds(deadline - now())):
                raise TimeoutError("no answer in time")
            if not is_flushed and exchange.flush():
                is_flushed = True
                poll.modify(self.libpq.socket, here.READ)
            if exchange.read():
                return

    def is_sound(self) -> bool:
        """Whether the server is still there, as far as can be seen without a request."""
        # No reply is due, so anything to read means the end of the connection.
        return self._connection is not None and not self._poll.poll(0)

    def fileno(self) -> int:
        """Return the descriptor to poll."""
        return self.libpq.socket

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.finish()

    def _let_go(self) -> None:
        """Leave the connection as it was when it was taken over; raise if it is in use."""
        self.libpq.exit_pipeline_mode()
        self._poll.unregister(self.libpq.socket)
        self._connection = None


def _milliseconds(left: float) -> float:
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left * 1000 + 1  # round up, so that the wait never ends too early


# The subscription of the sync flavour, on a connection of its own, read by one thread at a time.


class PostgresqlSubscription(Listener["PostgresqlConnection"]):
    """Listens to one channel, on a connection of its own."""

    _broken_by = (OSError, Error)

    def __init__(
        self,
        connection: PostgresqlConnection,
        channel: str,
        hear: Callable[[str], None],
        *,
        clock: Clock,
    ) -> None:
        super().__init__(connection, clock=clock)
        self.proof: str = os.urandom(8).hex()
        self._is_proven = False
        self._is_given_up = False
        self._channel = channel
        self._hear = hear

    # -- beginning ---------------------------------------------------------------------

    def begin(self, *, deadline: float) -> None:
        """Listen to the channel; `prove` finds out whether notifications come through."""
        self._connection.restore_queries = [Query(unlisten_statement(self._channel))]
        self._connection.exchange([Query(listen_statement(self._channel))], deadline=deadline)

    def prove(self, *, deadline: float) -> None:
        """Wait for the proof, which another connection sends; raise if it does not arrive."""
        until = min(deadline, self._clock.now() + PROOF_TIMEOUT_SECONDS)
        self._deliver()
        while not self._is_proven and (left := until - self._clock.now()) > 0:
            if self._is_given_up:
                self._let_go()
                raise no_longer_wanted(where=self._connection.where)
            is_readable, _ = self._poll(self._connection, self._guest_wakeups, left)
            if is_readable:
                self._read()
        if not self._is_proven:
            self._let_go()
            raise unproven(where=self._connection.where)

    def give_up(self) -> None:
        """Make `prove` fail at once."""
        self._is_given_up = True
        self._guest_wakeups.give()

    def _let_go(self) -> None:
        self._interrupts.close()
        self._guest_wakeups.close()

    # -- reading -----------------------------------------------------------------------

    def _read(self) -> None:
        self._connection.libpq.consume_input()
        self._deliver()

    def _deliver(self) -> None:
        """Deliver the notifications that libpq has already read."""
        connection = self._connection.libpq
        while (note := connection.notifies()) is not None:
            message = note.extra.decode()
            if message == self.proof:
                self._is_proven = True
            else:
                self._hear(message)

    def abandon_in_child(self) -> None:
        """Abandon the connection in a forked child; the parent process still uses it."""
        self._is_closed = self._is_broken = True
        self._connection.abandon_in_child()
        self._interrupts.close()
        self._guest_wakeups.close()
