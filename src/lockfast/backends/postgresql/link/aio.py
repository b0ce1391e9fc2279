"""One connection of the asyncio flavour, which the loop reads; `threads` is its pair."""

from __future__ import annotations

import asyncio
import os
from ipaddress import ip_address
from typing import TYPE_CHECKING

from psycopg import Error, OperationalError, pq
from psycopg.pq import ConnStatus, PollingStatus

from lockfast.backends.postgresql import refusals
from lockfast.backends.postgresql.addresses import conninfo_of
from lockfast.backends.postgresql.exchange import Exchange
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from psycopg.pq.abc import PGconn

    from lockfast.backends.postgresql.addresses import Address
    from lockfast.backends.postgresql.values import Rows
    from lockfast.backends.sql.steps import Ask
    from lockfast.runtime.clock import Clock

__all__ = ["Link"]


class Link:
    """One connection; the loop reads it all the time, so that its end is seen when it comes.

    One that is lent goes back after each request; then `farewell` is asked before.
    """

    is_lent = False

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.where = where
        self.farewell: Sequence[Ask] = ()
        self.prepared: set[bytes] | None = None
        self.used_at: float = clock.now()
        self.hear: Callable[[str], None] | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._connection: PGconn | None = None
        self._exchange: Exchange | None = None
        self._answer: asyncio.Future[None] | None = None
        self._watched: int | None = None
        self._is_writing = False
        self._timer: asyncio.TimerHandle | None = None
        self._given_up_at = 0.0

    # -- connecting --------------------------------------------------------------------

    async def connect(self, address: Address, *, deadline: float) -> None:
        """Try each host in turn, each for its share of the time."""
        attempts = address.attempts()
        for number, settings in enumerate(attempts):
            now = self._clock.now()
            until = now + (deadline - now) / (len(attempts) - number)
            try:
                await self._dial(await self._resolved(settings, until), until)
            except NotImplementedError as error:
                self._finish()
                raise refusals.unwatchable(where=self.where) from error
            except (OperationalError, OSError) as error:
                self._finish()
                if number + 1 == len(attempts):
                    raise refusals.unreachable(error, where=self.where) from error
            except BaseException:
                self._finish()
                raise
            else:
                return

    async def _resolved(self, settings: dict[str, str], until: float) -> dict[str, str]:
        """Return the settings with the host's address: libpq would look it up and stop the loop."""
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
        connection = self._connection = pq.PGconn.connect_start(conninfo_of(settings).encode())
        while True:
            if connection.status == ConnStatus.BAD:
                raise OperationalError(connection.get_error_message())
            status = connection.connect_poll()
            if status == PollingStatus.OK:
                break
            if status == PollingStatus.FAILED:
                raise OperationalError(connection.get_error_message())
            await self._ready(connection.socket, status, until)
        self._take_over(connection)

    def _take_over(self, connection: PGconn) -> None:
        self._connection = connection
        connection.nonblocking = 1
        connection.enter_pipeline_mode()
        self._watched = connection.socket
        self._loop.add_reader(self._watched, self._readable)

    async def _ready(self, number: int, status: int, until: float) -> None:
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

    # -- asking ------------------------------------------------------------------------

    async def exchange(self, requests: Sequence[Ask], *, deadline: float) -> list[Rows]:
        """Return the rows of each, or raise the driver's error.

        An error of the server's leaves the connection as it was; after any other it is closed.
        """
        exchange = self._exchange = Exchange(self.connection, requests, prepared=self.prepared)
        answer = self._answer = self._loop.create_future()
        try:
            self._give_up_at(self._loop.time() + deadline - self._clock.now())
            if not exchange.send():
                self._is_writing = True
                self._loop.add_writer(self.connection.socket, self._flush)
            await answer
        except BaseException:
            self._break_off()
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

    def _give_up_at(self, moment: float) -> None:
        """Let the answer be given up then, if it has not come.

        The timer of an earlier request looks in time, and then sets one for this: a timer for
        each would cost as much as sending it.
        """
        self._given_up_at = moment
        if self._timer is None or self._timer.when() > moment:
            self._stop_timer()
            self._timer = self._loop.call_at(moment, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        if self._answer is None:
            return
        if self._loop.time() < self._given_up_at:
            self._give_up_at(self._given_up_at)
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
            # What comes on one that is lent is the application's, which is told at the end.
            is_ours = self.hear is not None or not self.is_lent
            while is_ours and (note := connection.notifies()) is not None:
                if self.hear is not None:
                    self.hear(note.extra.decode())
        except Error as error:
            self._lose(error)

    def _lose(self, error: BaseException) -> None:
        answer = self._answer
        self._break_off()
        if answer is not None and not answer.done():
            answer.set_exception(error)

    @property
    def connection(self) -> PGconn:
        """The driver's connection."""
        if self._connection is None:
            raise OperationalError("the connection is closed")
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._connection is not None

    def is_sound(self) -> bool:
        """Whether the server still listens: the loop has read its end, if it came."""
        return self.is_open

    def close(self) -> None:
        """Let go of the connection; the server ends what it was doing for it, if it can."""
        self._break_off()

    def _break_off(self) -> None:
        self._finish()
        self._say_lost()

    def _say_lost(self) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def _let_go(self) -> None:
        """Leave the connection as it was when it was taken over; raise if it is in use."""
        self.connection.exit_pipeline_mode()
        self._unwatch()
        self._connection = None

    def _finish(self) -> None:
        connection, self._connection = self._connection, None
        self._stop_timer()
        if connection is not None:
            self._unwatch()
            connection.finish()

    def _unwatch(self) -> None:
        # By the number that it had: at its end libpq closes the socket by itself, and the loop
        # would take the next one of that number for this one.
        number, self._watched = self._watched, None
        if number is None or self._loop.is_closed():
            return
        self._loop.remove_reader(number)
        if self._is_writing:
            self._loop.remove_writer(number)

    def disinherit(self) -> None:
        """Let go, in a forked child, of what the parent uses: without a word to the server."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.status == ConnStatus.OK:
            forking.leak(connection)
            # Under the same number: whatever is closed there later is nothing.
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, connection.socket)
            os.close(nothing)


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
