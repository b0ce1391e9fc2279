"""What the connections of both flavours have in common: the driver's connection, and dialling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import OperationalError, pq
from psycopg.pq import ConnStatus, PollingStatus

from lockfast.backends.postgresql.address import conninfo_of
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg.pq.abc import PGconn

    from lockfast.backends.postgresql.address import Address
    from lockfast.backends.sql.steps import Query
    from lockfast.runtime.clock import Clock


class LibpqConnection:
    """One connection, which a flavour's subclass connects, drives and watches.

    A borrowed connection goes back to the application after each request. Before that, the
    `restore_queries` are run.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_connection",
        "prepared",
        "restore_queries",
        "used_at",
        "where",
    )
    is_borrowed = False

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.where: str = where
        self.restore_queries: Sequence[Query] = ()
        self.prepared: set[bytes] | None = None
        self.used_at: float = clock.now()
        self._clock = clock
        self._connection: PGconn | None = None

    @property
    def libpq(self) -> PGconn:
        """The driver's connection."""
        if self._connection is None:
            raise OperationalError("the connection is closed")
        return self._connection

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used, as far as this process knows."""
        return self._connection is not None

    def close(self) -> None:
        """Close the connection; the server aborts the request under way, if it can."""
        self._disconnect()

    def _disconnect(self) -> None:
        raise NotImplementedError

    def _attempts(
        self, address: Address, deadline: float
    ) -> Iterator[tuple[dict[str, str], float, bool]]:
        """Yield the settings for each host, until when it may take, and whether it is the last."""
        attempts = address.attempts()
        for left in range(len(attempts), 0, -1):
            now = self._clock.now()
            yield attempts[-left], now + (deadline - now) / left, left == 1

    def _dialled(self, settings: dict[str, str]) -> Iterator[tuple[int, int]]:
        """Connect; yield each socket to wait for, and whether for reading or for writing."""
        connection = self._connection = pq.PGconn.connect_start(conninfo_of(settings).encode())
        while connection.status != ConnStatus.BAD:
            status = connection.connect_poll()
            if status == PollingStatus.OK:
                return
            if status == PollingStatus.FAILED:
                break
            yield connection.socket, status
        raise OperationalError(connection.get_error_message())

    def abandon_in_child(self) -> None:
        """Abandon the parent's connection in a forked child, without sending anything on it."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.status == ConnStatus.OK:
            fork.abandon_socket(connection, connection.socket)
