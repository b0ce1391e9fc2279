"""The connection pool of the asyncio flavour; `pool_threads` is its counterpart."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.backends.sql.steps import PooledConnection, none_free
from lockfast.backends.sql.turns import Progress, Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.runtime.clock import Clock

__all__ = ["ConnectionPool"]

ConnectionT = TypeVar("ConnectionT", bound=PooledConnection)


class ConnectionPool(Generic[ConnectionT]):
    """A bounded pool of connections; a request waits for its turn if no connection is free.

    Waiting requests are served in order of arrival: a connection that becomes free goes directly to
    the first of them. Otherwise the request that has just put a connection back could take it
    again, and a few busy callers would starve the renewals.

    `make` returns a connection that is not connected yet, and `connect` connects it by a deadline.
    A connection that was idle for `idle` seconds is not used again, because the server may be about
    to close it.
    """

    def __init__(
        self,
        make: Callable[[], ConnectionT],
        connect: Callable[[ConnectionT, float], Awaitable[None]],
        *,
        where: str,
        clock: Clock,
        most: int,
        idle: float,
    ) -> None:
        self._make = make
        self._connect = connect
        self._where = where
        self._clock = clock
        self._most = most
        self._idle_for = idle
        self._begin()

    def _begin(self) -> None:
        self._connections: weakref.WeakSet[ConnectionT] = weakref.WeakSet()
        self._idle: list[ConnectionT] = []
        self._waiting: deque[asyncio.Future[ConnectionT]] = deque()
        self._progress = Progress()

    async def take(self, deadline: float, turn: Turn | None = None) -> ConnectionT:
        """Return a connection for the caller's exclusive use until it is put back.

        Connecting is part of the request, and counts against the time of the request's turn.
        """
        turn = turn or Turn()
        while True:
            connection = self._next() or await self._turn(deadline, turn.patience)
            until = turn.come(self._clock.now(), deadline=deadline)
            if not connection.is_open:
                try:
                    await self._connect(connection, until)
                except BaseException:
                    self._progress.failed(self._clock.now())
                    self.discard(connection)
                    raise
                return connection
            if self._clock.now() - connection.used_at < self._idle_for and connection.is_sound():
                return connection
            self.discard(connection)

    def _next(self) -> ConnectionT | None:
        """Return an idle or a new, unconnected connection; None if all connections are in use."""
        if self._idle:
            return self._idle.pop()
        if len(self._connections) >= self._most:
            return None
        connection = self._make()
        self._connections.add(connection)
        return connection

    async def _turn(self, deadline: float, patience: float | None) -> ConnectionT:
        turn: asyncio.Future[ConnectionT] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        since = now = self._clock.now()
        try:
            while not turn.done():
                ends_at = self._progress.ends_at(since=since, patience=patience, deadline=deadline)
                if now >= ends_at:
                    break
                # The failure of another request wakes no waiter, so each waiter checks for failures
                # itself.
                left = ends_at - now if patience is None else min(ends_at - now, patience)
                await asyncio.wait([turn], timeout=left)
                now = self._clock.now()
        except BaseException:
            if turn.done():
                self.put_back(turn.result())  # the connection came too late for us
            raise
        finally:
            if not turn.done():
                turn.cancel()
                with suppress(ValueError):
                    self._waiting.remove(turn)
        if turn.cancelled():
            raise none_free(where=self._where)
        return turn.result()

    def put_back(self, connection: ConnectionT) -> None:
        """Make the connection available again; a closed connection is dropped."""
        connection.used_at = self._clock.now()
        (self._progress.answered if connection.is_open else self._progress.failed)(
            connection.used_at
        )
        if not connection.is_open or connection.is_borrowed or connection not in self._connections:
            self.discard(connection)  # it is closed or borrowed, or the pool was closed
            return
        self._idle.append(connection)
        self._serve()

    def discard(self, connection: ConnectionT) -> None:
        """Close the connection, and make room for another."""
        connection.close()
        self._connections.discard(connection)
        self._serve()

    def _serve(self) -> None:
        """Hand free connections to the waiting requests."""
        while self._waiting:
            turn = self._waiting[0]
            connection = None if turn.done() else self._next()
            if connection is not None:
                turn.set_result(connection)
            elif not turn.done():
                return
            self._waiting.popleft()

    def give_back(self) -> float | None:
        """Close overdue idle connections; return when the next is due; None if none is idle."""
        now = self._clock.now()
        for one in [one for one in self._idle if now - one.used_at >= self._idle_for]:
            self._idle.remove(one)
            self.discard(one)
        oldest = min((one.used_at for one in self._idle), default=None)
        return None if oldest is None else oldest + self._idle_for

    @property
    def size(self) -> int:
        """The number of connections."""
        return len(self._connections)

    def close(self) -> None:
        """Close every connection, either now or when its request has ended."""
        idle, self._idle = self._idle, []
        self._connections = weakref.WeakSet()
        for one in idle:
            one.close()

    def after_fork_in_child(self) -> None:
        """Start without any of the parent's connections."""
        connections = list(self._connections)
        self._begin()
        for one in connections:
            one.abandon_in_child()
