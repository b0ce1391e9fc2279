"""PostgreSQL connection and subscription for asyncio."""

from __future__ import annotations

import asyncio
import os
from ipaddress import ip_address
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
from lockfast.backends.waiting.listener_aio import Listener

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.pq.abc import PGconn

    from lockfast.backends.postgresql.address import Address
    from lockfast.backends.postgresql.exchange import Rows
    from lockfast.runtime.clock import Clock

__all__ = ["PostgresqlConnection", "PostgresqlSubscription"]


# One connection of the asyncio flavour; `connection_threads` has its counterpart.


class PostgresqlConnection(LibpqConnection):
    """One connection; the event loop reads it all the time, so its end is noticed at once."""

    def __init__(self, *, clock: Clock, where: str) -> None:
        super().__init__(clock=clock, where=where)
        self.hear: Callable[[str], None] | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._exchange: Exchange | None = None
        self._answer: asyncio.Future[None] | None = None
        self._watched: int | None = None
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._deadline_at = 0.0

    # -- connecting --------------------------------------------------------------------

    async def connect(self, address: Address, *, deadline: float) -> None:
        """Connect to the first host that accepts; each host gets its share of the time."""
        for settings, until, is_last in self._attempts(address, deadline):
            try:
                await self._dial(await self._resolved(settings, until), until)
            except NotImplementedError as error:
                self._finish()
                raise errors.unsupported_loop(where=self.where) from error
            except (OperationalError, OSError) as error:
                self._finish()
                if is_last:
                    raise errors.unreachable(error, where=self.where) from error
            except BaseException:
                self._finish()
                raise
            else:
                return

    async def _resolved(self, settings: dict[str, str], until: float) -> dict[str, str]:
        """Return the settings with the host's address; a lookup by libpq would block the loop."""
        host = settings.get("host", "")
        if not host or host.startswith(("/", "@")) or "hostaddr" in settings or _is_address(host):
            return settings
        lookup = asyncio.ensure_future(
            self._loop.getaddrinfo(host, settings.get("port", "5432"), type=1)
        )
        done, _ = await asyncio.wait([lookup], timeout=until - self._clock.now())
        if not done:
            lookup.cancel()
            raise OperationalError("could not translate host name in time")
        return {**settings, "hostaddr": str(lookup.result()[0][4][0])}

    async def _dial(self, settings: dict[str, str], until: float) -> None:
        for number, status in self._dialled(settings):
            await self._wait_until_ready(number, status, until)
        self._take_over(self.libpq)

    def _take_over(self, connection: PGconn) -> None:
        self._connection = connection
        connection.nonblocking = 1
        connection.enter_pipeline_mode()
        self._watched = connection.socket
        self._loop.add_reader(self._watched, self._readable)

    async def _wait_until_ready(self, number: int, status: int, until: float) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        is_reading = status == PollingStatus.READING
        add = self._loop.add_reader if is_reading else self._loop.add_writer
        remove = self._loop.remove_reader if is_reading else self._loop.remove_writer
        add(number, _finish, ready)
        try:
            done, _ = await asyncio.wait([ready], timeout=max(0.0, until - self._clock.now()))
        finally:
            remove(number)
        if not done:
            raise OperationalError("no connection in time")

    # -- requests ----------------------------------------------------------------------

    async def exchange(self, requests: Sequence[Query], *, deadline: float) -> list[Rows]:
        """Return the rows of each query, or raise the driver's error.

        An error from the server leaves the connection as it was; after any other error the
        connection is closed.
        """
        exchange = self._exchange = Exchange(self.libpq, requests, prepared=self.prepared)
        answer = self._answer = self._loop.create_future()
        try:
            self._set_deadline(self._loop.time() + deadline - self._clock.now())
            if not exchange.send():
                self._is_writing = True
                self._loop.add_writer(self.libpq.socket, self._flush)
            await answer
        except BaseException:
            self._disconnect()
            raise
        finally:
            self._exchange = self._answer = None
        if exchange.error is not None:
            raise exchange.error
        return exchange.answers

    def _flush(self) -> None:
        if self._exchange is None or self._connection is None:
            return
        try:
            is_flushed = self._exchange.flush()
        except OperationalError as error:
            self._lose(error)
            return
        if is_flushed:
            self._is_writing = False
            self._loop.remove_writer(self._connection.socket)

    def _set_deadline(self, moment: float) -> None:
        """Give up waiting for the reply at `moment`.

        If the timer of an earlier request fires first, it then sets a timer for this request. A new
        timer for each request would cost as much as sending the request.
        """
        self._deadline_at = moment
        if self._timer is None or self._timer.when() > moment:
            self._stop_timer()
            self._timer = self._loop.call_at(moment, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer = None
        if self._answer is None:
            return
        if self._loop.time() < self._deadline_at:
            self._set_deadline(self._deadline_at)
        elif not self._answer.done():
            self._answer.set_exception(TimeoutError("no answer in time"))

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _readable(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if self._exchange is None:
                connection.consume_input()
            elif self._exchange.read() and self._answer is not None:
                _finish(self._answer)
            # Notifications on a borrowed connection belong to the application, which receives them
            # when the connection goes back.
            is_ours = self.hear is not None or not self.is_borrowed
            while is_ours and (note := connection.notifies()) is not None:
                if self.hear is not None:
                    self.hear(note.extra.decode())
        except Error as error:
            self._lose(error)

    def _lose(self, error: BaseException) -> None:
        answer = self._answer
        self._disconnect()
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def is_sound(self) -> bool:
        """Whether the server is still there; the loop would have noticed a closed connection."""
        return self.is_open

    def _disconnect(self) -> None:
        self._finish()
        self._mark_lost()

    def _mark_lost(self) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def _let_go(self) -> None:
        """Leave the connection as it was when it was taken over; raise if it is in use."""
        self.libpq.exit_pipeline_mode()
        self._unwatch()
        self._connection = None

    def _finish(self) -> None:
        connection, self._connection = self._connection, None
        self._stop_timer()
        if connection is not None:
            self._unwatch()
            connection.finish()

    def _unwatch(self) -> None:
        # Remove the callbacks by the descriptor that was watched. When a connection ends, libpq
        # itself closes the socket, and the loop would mistake the next socket with that number for
        # this socket.
        number, self._watched = self._watched, None
        if number is None or self._loop.is_closed():
            return
        self._loop.remove_reader(number)
        if self._is_writing:
            self._loop.remove_writer(number)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


# The subscription of the asyncio flavour, on a connection of its own.


class PostgresqlSubscription(Listener):
    """Listens to one channel."""

    def __init__(
        self,
        connection: PostgresqlConnection,
        channel: str,
        hear: Callable[[str], None],
        *,
        clock: Clock,
    ) -> None:
        super().__init__(connection.lost, clock=clock)
        self.proof: str = os.urandom(8).hex()
        self._connection = connection
        self._channel = channel
        self._hear = hear
        self._proven = asyncio.get_running_loop().create_future()
        self._is_given_up = False

    # -- beginning ---------------------------------------------------------------------

    async def begin(self, *, deadline: float) -> None:
        """Listen to the channel; `prove` finds out whether notifications come through."""
        self._connection.restore_queries = [Query(unlisten_statement(self._channel))]
        self._connection.hear = self._on_notification
        await self._connection.exchange([Query(listen_statement(self._channel))], deadline=deadline)

    async def prove(self, *, deadline: float) -> None:
        """Wait for the proof, which another connection sends; raise if it does not arrive."""
        left = min(PROOF_TIMEOUT_SECONDS, deadline - self._clock.now())
        done, _ = await asyncio.wait(
            [self._proven, self._connection.lost],
            timeout=max(0.0, left),
            return_when=asyncio.FIRST_COMPLETED,
        )
        if self._is_given_up:
            raise no_longer_wanted(where=self._connection.where)
        if self._proven not in done:
            if self._connection.lost.done():
                raise OperationalError("the connection ended")
            raise unproven(where=self._connection.where)

    def give_up(self) -> None:
        """Make `prove` fail at once."""
        self._is_given_up = True
        self._connection.close()

    def _on_notification(self, message: str) -> None:
        if message != self.proof:
            self._hear(message)
        elif not self._proven.done():
            self._proven.set_result(None)

    # -- closing -----------------------------------------------------------------------

    async def close(self) -> None:
        """Stop listening, and close the connection."""
        self._connection.close()

    def abandon_in_child(self) -> None:
        """Abandon the connection in a forked child; the parent process still uses it."""
        self._connection.abandon_in_child()
