"""A pool of connections to one server, which serves waiting requests in order of arrival."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import ref

from lockfast.backends.sql.steps import PooledConnection, none_free
from lockfast.backends.sql.turns import Progress, Turn
from lockfast.model import FOREVER
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.runtime.clock import Clock

ConnectionT = TypeVar("ConnectionT", bound=PooledConnection)

POOL_POLL_SECONDS = 0.1
"""Poll interval of a waiting thread, in seconds. By polling, the thread finds the free slot of a
connection that was lost to an interrupt."""

TRUSTED_UNPOLLED_SECONDS = 0.001
"""A connection used this recently is not checked, in seconds. The check may cost a system call, and
a connection that ends so soon could just as well end right after the check."""


class AsyncPoolWaiter(Generic[ConnectionT]):
    """A waiting request, and the connection that was handed to it."""

    __slots__ = ("connection", "has_come")

    def __init__(self) -> None:
        self.connection: ConnectionT | None = None
        self.has_come = runtime.WakeEvent()


class AsyncConnectionPool(Generic[ConnectionT]):
    """A bounded pool of connections; a request waits for its turn if no connection is free.

    A connection that becomes free goes directly to the first waiting request. Otherwise the request
    that has just put a connection back could take it again, and a few busy callers would starve the
    renewals.

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
        self._state = runtime.StateLock()
        # Weak references, so that a connection that its owner lost in an interrupt no longer
        # counts.
        self._connections: set[ref[ConnectionT]] = set()
        self._idle: list[ConnectionT] = []
        self._waiting: OrderedDict[AsyncPoolWaiter[ConnectionT], None] = OrderedDict()
        self._progress = Progress()

    async def take(self, deadline: float, turn: Turn | None = None) -> ConnectionT:
        """Return a connection for the caller's exclusive use until it is put back.

        Connecting is part of the request, and counts against the time of the request's turn.
        """
        turn = turn or Turn()
        with self._state:
            connection = self._idle.pop() if self._idle else self._next()
        while True:
            if connection is None:
                connection = await self._turn(deadline, turn.patience)
            now = self._clock.now()
            until = turn.come(now, deadline=deadline)
            if connection.is_new:
                connection.is_new = False
                try:
                    await self._connect(connection, until)
                except BaseException:  # interrupted or unreachable, so free the slot
                    self._progress.failed(self._clock.now())
                    self.discard(connection)
                    raise
                return connection
            if self._is_usable(connection, now):
                return connection
            connection = self._replace(connection)

    def _is_usable(self, connection: ConnectionT, now: float) -> bool:
        """Whether the connection, which was idle, may be used for another request."""
        unused = now - connection.used_at
        if unused >= self._idle_for or not connection.is_open:
            return False
        return unused < TRUSTED_UNPOLLED_SECONDS or connection.is_sound()

    def _replace(self, connection: ConnectionT) -> ConnectionT | None:
        """Close the connection; return another one in its place, so that the turn is kept.

        A connection that has ended is not connected again, because the object still has the state
        of its session, such as the names of the statements prepared there. Returns None if the pool
        was closed meanwhile, and all connections made since are in use.
        """
        connection.close()
        with self._state:
            self._connections.discard(ref(connection))
            return self._next()

    def _next(self) -> ConnectionT | None:
        """Return an idle or a new, unconnected connection; None if all connections are in use."""
        if self._idle:
            return self._idle.pop()
        self._connections = {one for one in self._connections if one() is not None}
        if len(self._connections) >= self._most:
            return None
        connection = self._make()
        self._connections.add(ref(connection))
        return connection

    async def _turn(self, deadline: float, patience: float | None) -> ConnectionT:
        waiter, since = AsyncPoolWaiter[ConnectionT](), self._clock.now()
        # The failure of another request wakes no waiter, so each waiter checks for failures itself.
        # Only threads also look for a connection that was lost; thousands of tasks that woke up so
        # often would leave no time for the requests.
        pause = FOREVER if patience is None else patience
        if runtime.INTERRUPTED_ANYWHERE:
            pause = POOL_POLL_SECONDS
        try:
            with self._state:
                self._waiting[waiter] = None
            while self._given(waiter) is None:
                ends_at = self._progress.ends_at(since=since, patience=patience, deadline=deadline)
                left = ends_at - self._clock.now()
                if left <= 0:
                    break
                await waiter.has_come.wait(min(left, pause))
        except BaseException:
            if waiter.connection is not None:
                self.put_back(waiter.connection)  # the connection came too late for us
            raise
        finally:
            with self._state:
                self._waiting.pop(waiter, None)
        if (connection := waiter.connection) is None:
            raise none_free(where=self._where)
        return connection

    def _given(self, waiter: AsyncPoolWaiter[ConnectionT]) -> ConnectionT | None:
        """Return the connection handed to the waiter; None if it has to keep waiting."""
        with self._state:
            self._serve()  # also finds slots that an interrupt freed silently
            return waiter.connection

    def put_back(self, connection: ConnectionT) -> None:
        """Make the connection available again; a closed connection is dropped."""
        connection.used_at = now = self._clock.now()
        is_wanted = connection.is_open
        if is_wanted:
            self._progress.answered(now)
        else:
            self._progress.failed(now)
        with self._state:
            # Drop the connection if it is closed or borrowed, or if the pool was closed meanwhile.
            if connection.is_borrowed or ref(connection) not in self._connections:
                is_wanted = False
            if is_wanted:
                self._idle.append(connection)
                if self._waiting:
                    self._serve()
        if not is_wanted:
            self.discard(connection)

    def discard(self, connection: ConnectionT) -> None:
        """Close the connection, and make room for another."""
        connection.close()
        with self._state:
            self._connections.discard(ref(connection))
            self._serve()

    def _serve(self) -> None:
        """Hand free connections to the waiting requests."""
        while self._waiting:
            waiter = next(iter(self._waiting))
            if waiter.connection is None:
                connection = self._next()
                if connection is None:
                    return
                waiter.connection = connection
                waiter.has_come.set()
            # Remove the waiter only now, because an interrupt before this must not cost its turn.
            self._waiting.pop(waiter, None)

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
        with self._state:
            return sum(one() is not None for one in self._connections)

    def close(self) -> None:
        """Close every connection, either now or when its request has ended."""
        with self._state:
            idle, self._idle = self._idle, []
            self._connections = set()
        for one in idle:
            one.close()

    def after_fork_in_child(self) -> None:
        """Start without any of the parent's connections."""
        connections = [one() for one in self._connections]
        self._begin()
        for one in connections:
            if one is not None:
                one.abandon_in_child()
