"""The connection pool of the sync flavour; `pool_aio` is its counterpart."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.backends.sql.steps import PooledConnection, none_free
from lockfast.backends.sql.turns import Progress, Turn
from lockfast.runtime.threads import WakeEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.runtime.clock import Clock

__all__ = ["ConnectionPool"]

ConnectionT = TypeVar("ConnectionT", bound=PooledConnection)

POOL_POLL_SECONDS = 0.1
"""Poll interval of a waiting thread, in seconds. By polling, the thread finds the free slot of a
connection that was lost to an interrupt."""

TRUSTED_UNPOLLED_SECONDS = 0.001
"""A connection used this recently is not checked, in seconds. The check costs a system call, and a
connection that ends so soon could just as well end right after the check."""


class PoolWaiter(Generic[ConnectionT]):
    """A waiting request, and the connection that was handed to it."""

    def __init__(self) -> None:
        self.connection: ConnectionT | None = None
        self.has_come: WakeEvent = WakeEvent()


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
        connect: Callable[[ConnectionT, float], None],
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
        self._state = threading.RLock()
        # Weak references, so that a connection that its owner lost in an interrupt no longer
        # counts.
        self._connections: weakref.WeakSet[ConnectionT] = weakref.WeakSet()
        self._idle: list[ConnectionT] = []
        self._waiting: deque[PoolWaiter[ConnectionT]] = deque()
        self._progress = Progress()

    def take(self, deadline: float, turn: Turn | None = None) -> ConnectionT:
        """Return a connection for the caller's exclusive use until it is put back.

        Connecting is part of the request, and counts against the time of the request's turn.
        """
        turn = turn or Turn()
        while True:
            with self._state:
                connection = self._next()
            if connection is None:
                connection = self._turn(deadline, turn.patience)
            until = turn.come(self._clock.now(), deadline=deadline)
            if not connection.is_open:
                try:
                    self._connect(connection, until)
                except BaseException:  # interrupted or unreachable, so free the slot
                    self._progress.failed(self._clock.now())
                    self.discard(connection)
                    raise
                return connection
            if self._is_usable(connection):
                return connection
            self.discard(connection)

    def _next(self) -> ConnectionT | None:
        """Return an idle or a new, unconnected connection; None if all connections are in use."""
        if self._idle:
            return self._idle.pop()
        if sum(one is not None for one in self._connections) >= self._most:
            return None
        connection = self._make()
        self._connections.add(connection)
        return connection

    def _turn(self, deadline: float, patience: float | None) -> ConnectionT:
        turn, since = PoolWaiter[ConnectionT](), self._clock.now()
        try:
            while self._given(turn) is None:
                ends_at = self._progress.ends_at(since=since, patience=patience, deadline=deadline)
                left = ends_at - self._clock.now()
                if left <= 0:
                    break
                turn.has_come.wait(min(left, POOL_POLL_SECONDS))
        except BaseException:
            if turn.connection is not None:
                self.put_back(turn.connection)  # the connection came too late for us
            raise
        finally:
            with self._state, suppress(ValueError):
                self._waiting.remove(turn)
        if (connection := turn.connection) is None:
            raise none_free(where=self._where)
        return connection

    def _is_usable(self, connection: ConnectionT) -> bool:
        idle = self._clock.now() - connection.used_at
        return idle < self._idle_for and (idle < TRUSTED_UNPOLLED_SECONDS or connection.is_sound())

    def _given(self, turn: PoolWaiter[ConnectionT]) -> ConnectionT | None:
        """Return the connection handed to the waiter; None if it has to keep waiting."""
        with self._state:
            if turn.connection is None and turn not in self._waiting:
                self._waiting.append(turn)
            self._serve()  # also finds slots that an interrupt freed silently
            return turn.connection

    def put_back(self, connection: ConnectionT) -> None:
        """Make the connection available again; a closed connection is dropped."""
        connection.used_at = self._clock.now()
        (self._progress.answered if connection.is_open else self._progress.failed)(
            connection.used_at
        )
        with self._state:
            # Drop the connection if it is closed or borrowed, or if the pool was closed meanwhile.
            is_wanted = (
                connection.is_open
                and not connection.is_borrowed
                and connection in self._connections
            )
            if is_wanted:
                self._idle.append(connection)
                self._serve()
        if not is_wanted:
            self.discard(connection)

    def discard(self, connection: ConnectionT) -> None:
        """Close the connection, and make room for another."""
        connection.close()
        with self._state:
            self._connections.discard(connection)
            self._serve()

    def _serve(self) -> None:
        """Hand free connections to the waiting requests."""
        while self._waiting and (connection := self._next()) is not None:
            turn = self._waiting.popleft()
            turn.connection = connection
            turn.has_come.set()

    def give_back(self) -> float | None:
        """Close overdue idle connections; return when the next is due; None if none is idle."""
        now = self._clock.now()
        with self._state:
            old = [one for one in self._idle if now - one.used_at >= self._idle_for]
            self._idle = [one for one in self._idle if one not in old]
            oldest = min((one.used_at for one in self._idle), default=None)
        for one in old:
            self.discard(one)
        return None if oldest is None else oldest + self._idle_for

    @property
    def size(self) -> int:
        """The number of connections."""
        return len(self._connections)

    def close(self) -> None:
        """Close every connection, either now or when its call has ended."""
        with self._state:
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
