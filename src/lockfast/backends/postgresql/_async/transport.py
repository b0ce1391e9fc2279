"""The PostgreSQL transport: connects, subscribes, and works over borrowed connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import Error
from psycopg.pq import TransactionStatus

from lockfast.backends.postgresql import errors
from lockfast.backends.postgresql.connection_aio import PostgresqlConnection, PostgresqlSubscription
from lockfast.backends.postgresql.connection_setup import (
    FRAMING,
    SERVER_FACTS_QUERY,
    ServerGreeting,
    checked_borrowed,
    framing_where_shared,
    is_alive,
    pass_on_notifications,
    pinning,
)
from lockfast.backends.sql._async.borrowed import AsyncBorrowedConnection, AsyncBorrowedTransport
from lockfast.backends.sql._async.transport import AsyncSqlTransport
from lockfast.backends.sql.errors import no_time
from lockfast.backends.sql.steps import Query
from lockfast.backends.waiting import NotificationsUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.postgresql.address import Address
    from lockfast.backends.sql.steps import Framing


# A psycopg connection borrowed from the application.
#
# No statement is prepared on the connection, so none is left behind. When the connection goes back,
# it is out of pipeline mode, listens to none of our channels, and is not in a transaction.


class AsyncPostgresqlBorrowedConnection(AsyncBorrowedConnection, PostgresqlConnection):  # type: ignore[misc]
    """A borrowed connection, kept for one request or for as long as it listens."""

    def _accept(self, lent_connection: Any) -> bool:  # noqa: ANN401 - a driver's connection
        connection = checked_borrowed(lent_connection, where=self.where)
        if not is_alive(connection):
            return False
        self._take_over(connection)
        return True

    def _restore_queries(self) -> Sequence[Query]:
        status = self.libpq.transaction_status
        is_open = status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)
        return [Query("ROLLBACK"), *self.restore_queries] if is_open else self.restore_queries

    def _let_go(self) -> None:
        connection = self.libpq
        super()._let_go()
        pass_on_notifications(connection)

    # async only: begin
    def close(self) -> None:
        """Give the connection back, and notify its listener."""
        super().close()
        self._mark_lost()

    # async only: end


# The transport to a PostgreSQL server, and its subscriptions.

DRIVERS_ERRORS = (Error, OSError)


class AsyncPostgresqlTransport(AsyncSqlTransport[PostgresqlConnection]):
    """The connections to one server; `greeting` is the reply to its latest handshake."""

    room: int | None = None
    """Number of connections that the application lends at once; None if there is no limit, or if
    the connections are ours."""

    greeting: ServerGreeting | None = None
    refusals = errors
    _errors = DRIVERS_ERRORS
    _framing = FRAMING
    _shared_framing = framing_where_shared(0)
    _address: Address

    def _unconnected(self) -> PostgresqlConnection:
        return PostgresqlConnection(clock=self._clock, where=self.where)

    async def _connect(self, connection: PostgresqlConnection, deadline: float) -> None:
        if deadline <= self._clock.now():
            raise no_time(where=self.where)
        try:
            await connection.connect(self._address, deadline=deadline)
            if connection.is_borrowed and self.greeting is not None:
                return  # one handshake is enough where nothing is prepared
            # Until the connection is known to be ours alone, nothing we set may outlive the
            # transaction. The transaction stays open until the next round trip, so a pooler in
            # statement mode refuses it.
            shared = self._shared_framing
            asked = [*shared.begin, Query(SERVER_FACTS_QUERY)]
            [*_, [row]] = await connection.exchange(asked, deadline=deadline)
            greeting = ServerGreeting(connection.libpq.backend_pid, *row)
            is_ours = not (greeting.is_pooled or connection.is_borrowed)
            pinned = [pinning(greeting.version)] if is_ours else []
            await connection.exchange([*shared.commit, *pinned], deadline=deadline)
            self.greeting = greeting
            self._shared_framing = framing_where_shared(greeting.version)
            if is_ours:
                connection.prepared = set()
        except DRIVERS_ERRORS as error:
            raise errors.unreachable(error, where=self.where) from error

    def _framing_of(self, connection: PostgresqlConnection) -> Framing:
        # A connection on which nothing may be prepared is not ours alone.
        return self._shared_framing if connection.prepared is None else FRAMING

    def _may_repeat(self, error: Exception, connection: PostgresqlConnection) -> bool:
        if errors.code_of(error) in errors.PREPARED_MISMATCH and connection.prepared is not None:
            connection.prepared = None  # there is a pooler that the handshake did not detect
            return True
        if errors.code_of(error) == errors.READ_ONLY:
            # This connection stays read-only even if the server accepts writes again, or if another
            # server is the primary by now.
            connection.close()
            return True
        return super()._may_repeat(error, connection)

    def _pause(self, error: Exception, attempt: int) -> float:
        longer = 50 if errors.code_of(error) == errors.READ_ONLY else 1
        return longer * super()._pause(error, attempt)

    # -- listening ---------------------------------------------------------------------

    async def subscribe(
        self,
        channel: str,
        hear: Callable[[str], None],
        *,
        deadline: float,
        begun: Callable[[PostgresqlSubscription], None] = lambda _: None,
    ) -> PostgresqlSubscription:
        """Return a subscription to the channel, on a connection of its own.

        Raises NotificationsUnavailable if notifications do not come through, for example behind a
        pooler that hands the server's connection to other clients between transactions.
        """
        connection = self._unconnected()
        try:
            await self._connect(connection, deadline)
            subscription = PostgresqlSubscription(connection, channel, hear, clock=self._clock)
            begun(subscription)
            await subscription.begin(deadline=deadline)
            proof = Query("SELECT pg_notify($1, $2)", (channel, subscription.proof))
            await self.ask(proof, deadline=deadline)
            await subscription.prove(deadline=deadline)
        except DRIVERS_ERRORS as error:
            connection.close()
            raise errors.unreachable(error, where=self.where) from error
        except NotificationsUnavailable as error:
            connection.close()
            error.is_for_good = self.greeting is not None and self.greeting.is_pooled
            raise
        except BaseException:
            connection.close()
            raise
        return subscription


# The transport over connections that the application lends.


class AsyncPostgresqlBorrowedTransport(AsyncBorrowedTransport, AsyncPostgresqlTransport):
    """A transport whose connections are borrowed from the application."""

    def _unconnected(self) -> PostgresqlConnection:
        return AsyncPostgresqlBorrowedConnection(clock=self._clock, where=self.where)
