# Generated from src/lockfast/backends/mysql/_async/transport.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The MySQL and MariaDB transport, over our own connections or borrowed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.mysql import errors
from lockfast.backends.mysql.connection_setup import (
    FRAMING,
    LOOK,
    SERVER_FACTS_QUERY,
    SESSION_SETTINGS,
    check_server,
    checked_borrowed,
    refuse_transaction,
    restore_statements,
)
from lockfast.backends.mysql.connection_threads import DRIVER, DriverError, MysqlConnection
from lockfast.backends.sql._sync.borrowed import BorrowedConnection, BorrowedTransport
from lockfast.backends.sql._sync.transport import SqlTransport
from lockfast.backends.sql.steps import Query
from lockfast.errors import BackendUnavailable, LockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.mysql.address import Address


# A driver's connection that the application lends.
#
# When the connection goes back, its session has its old settings and is not in a transaction.


class MysqlBorrowedConnection(BorrowedConnection, MysqlConnection):  # type: ignore[misc]
    """A connection borrowed for one request."""

    _restoring: Sequence[Query] = ()

    def _accept(self, given: Any) -> bool:  # noqa: ANN401 - a driver's connection
        checked_borrowed(given, DRIVER, where=self._where)
        if not self._is_sound(given):
            return False
        refuse_transaction(given.server_status, where=self._where)
        self._take_over(given)
        return True

    def _prepare(self, *, deadline: float) -> None:
        if self.is_borrowed:
            [rows] = self.exchange([LOOK], deadline=deadline)
            self._restoring = restore_statements(rows, where=self._where)

    def _restore_queries(self) -> Sequence[Query]:
        return [Query("ROLLBACK"), *self._restoring]


# The transport over our own connections.


class MysqlTransport(SqlTransport[MysqlConnection]):
    """The connections to one server."""

    refusals = errors
    _errors = (DriverError,)
    _framing = FRAMING
    _address: Address
    _is_greeted = False

    def _unconnected(self) -> MysqlConnection:
        return MysqlConnection(clock=self._clock, where=self.where)

    def _connect(self, connection: MysqlConnection, deadline: float) -> None:
        try:
            connection.connect(self._address, deadline=deadline)
            # Each request may borrow another connection; the server's clock is checked only once.
            greeting = (
                SESSION_SETTINGS
                if connection.is_borrowed and self._is_greeted
                else SERVER_FACTS_QUERY
            )
            answers = connection.exchange(greeting, deadline=deadline)
        except LockError:
            raise
        except TimeoutError as error:
            raise BackendUnavailable(f"{self.where} did not answer in time") from error
        except Exception as error:
            # Catch whatever the driver raises, because a server of another kind at that port may
            # send anything.
            raise errors.unreachable(error, where=self.where) from error
        if greeting is SERVER_FACTS_QUERY:
            check_server(answers, where=self.where)
            self._is_greeted = True

    def close(self) -> None:
        """Close every connection, either now or when its request has ended."""
        super().close()
        # The loop closes the sockets in its next iterations. The loop may be about to end, so run a
        # few iterations now.


# The transport over connections that the application lends.


class MysqlBorrowedTransport(BorrowedTransport, MysqlTransport):
    """A transport over the application's connections."""

    def _unconnected(self) -> MysqlConnection:
        return MysqlBorrowedConnection(clock=self._clock, where=self.where)
