"""The shared transport, which sends requests to one server over a few connections.

Each connection is used by one request at a time. If a request is not answered in time, or is
cancelled or interrupted, its connection is closed, because otherwise the next request would read
the late reply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from lockfast.backends.sql import errors as sql_errors
from lockfast.backends.sql import steps
from lockfast.backends.sql._async.pool import AsyncConnectionPool
from lockfast.backends.sql.steps import RoundTrips
from lockfast.backends.sql.turns import Turn
from lockfast.core.backoff import delay
from lockfast.errors import BackendUnavailable, LockError, OutcomeUnknown
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lockfast.backends.sql.errors import ErrorMapping
    from lockfast.backends.sql.steps import Framing, Query, Rows, Steps
    from lockfast.backends.waiting.listener_aio import AnyListener
    from lockfast.runtime.clock import Clock

CONNECTIONS_DEFAULT = 4
"""Default number of connections per client."""

CONNECTION_IDLE_SECONDS = 30.0
"""How long a connection may be idle before it is closed, in seconds."""


class AsyncSqlConnection(steps.PooledConnection, Protocol):
    """A connection that can send queries."""

    async def exchange(self, requests: Sequence[Query], *, deadline: float) -> Sequence[Rows]:
        """Return the rows of each query, all in one round trip, or raise the driver's error.

        After an error from the server the connection stays open; after any other error it is
        closed.
        """
        ...


ConnectionT = TypeVar("ConnectionT", bound="AsyncSqlConnection")
T = TypeVar("T")


class AsyncSqlTransport(Generic[ConnectionT]):
    """At most `most` connections to one server, opened on demand.

    A store's subclass defines how to connect. Every request raises BackendUnavailable if nothing
    was done, and OutcomeUnknown if something may have been done.

    Every request ends by its deadline. If `request_timeout` is set, a request also has to end
    within that time after it got its connection; see `turns`.
    """

    request_timeout: float | None = None
    refusals: ErrorMapping
    """What the errors of the store's driver mean."""
    _errors: ClassVar[tuple[type[Exception], ...]]
    """The exceptions of the store's driver."""
    _framing: ClassVar[Framing]

    def __init__(
        self,
        address: Any,  # noqa: ANN401 - the store's, or what lends connections
        *,
        clock: Clock,
        most: int = CONNECTIONS_DEFAULT,
    ) -> None:
        self.where: str = address.where
        self._address = address
        self._failures: tuple[type[Exception], ...] = (*self._errors, LockError)
        self._clock = clock
        self._pool = AsyncConnectionPool(
            self._unconnected,
            self._connect,
            where=self.where,
            clock=clock,
            most=most,
            idle=CONNECTION_IDLE_SECONDS,
        )

    def _unconnected(self) -> ConnectionT:
        """Return a new connection object that is not connected yet."""
        raise NotImplementedError

    async def _connect(self, connection: ConnectionT, deadline: float) -> None:
        """Open the connection, and make it ready for use."""
        raise NotImplementedError

    # -- requests ----------------------------------------------------------------------

    async def ask(self, request: Query, *, deadline: float, turn: Turn | None = None) -> Rows:
        """Return the rows of one statement, which is already committed."""
        [rows] = await self.send_all((request,), deadline=deadline, turn=turn)
        return rows

    async def send_all(
        self, requests: Sequence[Query], *, deadline: float, turn: Turn | None = None
    ) -> Sequence[Rows]:
        """Return the rows of several statements, sent in one round trip and done all or none."""
        return await self._patiently(
            lambda connection, until: self._as_one(connection, requests, until), deadline, turn
        )

    async def transact(
        self, begin: Callable[[], Steps[T]], *, deadline: float, turn: Turn | None = None
    ) -> T:
        """Run the steps in one transaction; repeat them if a conflict made the server roll back."""

        async def work(connection: ConnectionT, until: float) -> T:
            framing = self._framing_of(connection)
            trips = RoundTrips(begin(), begin=framing.begin, commit=framing.commit)
            return await self._do(connection, trips, until)

        return await self._patiently(work, deadline, turn)

    async def look(self, begin: Callable[[], Steps[T]], *, deadline: float) -> T:
        """Run steps without a transaction; the steps only read, or only create the tables."""

        async def work(connection: ConnectionT, until: float) -> T:
            return await self._do(connection, RoundTrips(begin(), begin=(), commit=()), until)

        return await self._patiently(work, deadline)

    async def subscribe(
        self,
        channel: str,
        hear: Callable[[str], None],
        *,
        deadline: float,
        begun: Callable[[AnyListener], None],
    ) -> AnyListener:
        """Return a subscription that works, as proven by a test; `begun` gets it before the test.

        Raises NotificationsUnavailable if the server's notifications do not arrive.
        """
        raise NotImplementedError

    def _framing_of(self, connection: ConnectionT) -> Framing:
        """Return the statements that begin and end a transaction on this connection."""
        del connection
        return self._framing

    async def _as_one(
        self, connection: ConnectionT, requests: Sequence[Query], deadline: float
    ) -> Sequence[Rows]:
        framing = self._framing_of(connection)
        opening, closing = framing.opening, framing.closing
        if not opening or (len(requests) == 1 and not framing.frames_one):
            return await connection.exchange(requests, deadline=deadline)
        try:
            answers = await connection.exchange([*opening, *requests, *closing], deadline=deadline)
        except self._errors:
            await self._roll_back(connection, deadline)
            raise
        return answers[len(opening) : len(opening) + len(requests)]

    async def _do(self, connection: ConnectionT, trips: RoundTrips[T], deadline: float) -> T:
        try:
            while (requests := trips.next()) is not None:
                if trips.has_begun or not self._framing_of(connection).frames_one:
                    trips.answered(await connection.exchange(requests, deadline=deadline))
                else:
                    trips.answered(await self._as_one(connection, requests, deadline))
        except self._errors as error:
            if trips.has_begun:
                await self._roll_back(connection, deadline)
            if not trips.is_committing and self._is_in_doubt(error):
                # No COMMIT was sent, so nothing was done: the server rolls back.
                raise sql_errors.undone(
                    self.refusals.message_of(error), where=self.where
                ) from error
            raise
        except Exception:
            # The error came from the steps, or no time was left.
            if trips.has_begun:
                await self._roll_back(connection, deadline)
            raise
        finally:
            trips.close()
        return trips.outcome

    def _is_in_doubt(self, error: Exception) -> bool:
        return isinstance(self.refusals.refused(error, where=self.where), OutcomeUnknown)

    async def _roll_back(self, connection: ConnectionT, deadline: float) -> None:
        if not connection.is_open:
            return
        try:
            await connection.exchange(self._framing_of(connection).roll_back, deadline=deadline)
        except self._failures:
            connection.close()  # which also ends the transaction

    async def _patiently(
        self,
        work: Callable[[ConnectionT, float], Awaitable[T]],
        deadline: float,
        turn: Turn | None = None,
    ) -> T:
        attempt = 0
        refusal: LockError | None = None
        turn = turn or Turn(self.request_timeout)
        while True:
            turn.wait()
            try:
                connection = await self._pool.take(deadline, turn)
            except BackendUnavailable:
                if refusal is None or self._clock.now() < turn.until:
                    raise
                # Raise the server's refusal of the last attempt, because that is the cause of the
                # failure, not the lack of time for another attempt.
                raise refusal from refusal.__cause__
            began = self._clock.now()
            try:
                answer = await work(connection, turn.until)
            except self._errors as error:
                now = self._clock.now()
                pause = self._pause(error, attempt)
                again_at = now + pause
                # An attempt that is given less time than this one took would leave the outcome in
                # doubt, although it is known now.
                is_late = again_at + (now - began) >= turn.until
                earlier, refusal = refusal, self.refusals.refused(error, where=self.where)
                if earlier is not None and isinstance(refusal, OutcomeUnknown):
                    refusal = sql_errors.unanswered_after(refusal, earlier)
                refusal.__cause__ = error
                if is_late or not self._may_repeat(error, connection):
                    raise refusal from error
            except Exception:
                raise  # no transaction is open, so keep the connection
            except BaseException:
                # A cancellation or an interrupt struck at an unknown point. Close the connection,
                # because the next transaction on it must not commit the work of this one.
                connection.close()
                raise
            else:
                return answer
            finally:
                self._pool.put_back(connection)
            attempt += 1
            turn.pause_until(again_at)
            await runtime.sleep(pause)

    def _may_repeat(self, error: Exception, _connection: ConnectionT) -> bool:
        return self.refusals.may_repeat(error)

    def _pause(self, _error: Exception, attempt: int) -> float:
        return delay(attempt, jitter=self._clock.jitter()) / 50

    # -- connections -------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """The number of connections."""
        return self._pool.size

    def give_back(self) -> float | None:
        """Close overdue idle connections; return when the next is due; None if none is idle."""
        return self._pool.give_back()

    async def close(self) -> None:
        """Close every connection, either now or when its request has ended."""
        self._pool.close()

    def after_fork_in_child(self) -> None:
        """Start without any of the parent's connections."""
        self._pool.after_fork_in_child()
