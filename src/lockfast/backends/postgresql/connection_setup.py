"""Queries sent on connecting and around transactions, and the handling of borrowed connections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import BaseConnection, OperationalError, ProgrammingError, pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, PipelineStatus, PollingStatus, TransactionStatus

from lockfast.backends.postgresql.address import conninfo_of
from lockfast.backends.postgresql.session_variables import PINNED, PINNED_FOR_SESSIONS
from lockfast.backends.sql.foreign_clients import is_engine, is_pool, location_of_client
from lockfast.backends.sql.steps import Framing, Query
from lockfast.errors import BackendUnavailable, ConfigurationError
from lockfast.platforms import here
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg.pq.abc import PGconn

    from lockfast.backends.postgresql.address import Address
    from lockfast.backends.sql.session_variables import Pinned
    from lockfast.runtime.clock import Clock

# What a server reports about itself when a connection is made.

SERVER_FACTS_QUERY = """
SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('server_version_num')::int,
    current_setting('default_transaction_isolation'), current_setting('synchronous_commit')
"""


@dataclass(frozen=True, slots=True)
class ServerGreeting:
    """The reply to the handshake; `announced_pid` is the process id announced on connecting.

    A pooler announces a process id of its own, which does not reveal the pooler's mode.
    """

    announced_pid: int
    pid: int
    is_standby: bool
    version: int
    isolation: str
    synchronous_commit: str

    @property
    def is_pooled(self) -> bool:
        """Whether there is a pooler between us and the server."""
        return self.pid != self.announced_pid


# Checks whether a borrowed connection can be used, and passes on notifications that arrived for the
# application.

OWN_CHANNEL_PREFIX = b"lockfast_"
"""Prefix of all our notification channels."""


def checked_borrowed(connection: object, *, where: str) -> PGconn:
    """Return the libpq connection of a psycopg connection, or raise if it is unsuitable.

    A dead connection is returned as it is; the caller has to check whether it is alive.
    """
    if not isinstance(connection, BaseConnection):
        kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
        raise ConfigurationError(
            f"{where}: a connection of psycopg 3 is needed, and this is one of {kind}"
        )
    found = connection.pgconn
    if found.status != ConnStatus.OK:
        return found
    if found.pipeline_status != PipelineStatus.OFF:
        raise BackendUnavailable(
            f"{where}: your connection is in pipeline mode; leave it before you lock, or give a "
            "pool"
        )
    if found.transaction_status != TransactionStatus.IDLE:
        # Inside that transaction, other clients could not see the lock until the transaction
        # commits.
        raise BackendUnavailable(
            f"{where}: your connection is in the middle of a transaction, which a lock can neither "
            "join nor commit; end it first, set autocommit, or give a pool"
        )
    encoding = found.parameter_status(b"client_encoding")
    if encoding not in (None, b"UTF8"):
        raise ConfigurationError(
            f"{where}: the connection's client_encoding is {encoding.decode()}; locks need UTF8: "
            "connect with client_encoding=utf8"
        )
    return found


def is_alive(connection: PGconn) -> bool:
    """Whether the server is still there, as far as can be seen without a request."""
    try:
        poll = here.Poll()
        if connection.status == ConnStatus.OK:
            poll.register(connection.socket, here.READ)
        # The server's last message, and notifications, may come before the end of the stream.
        while connection.status == ConnStatus.OK and poll.poll(0):
            connection.consume_input()
    except OperationalError:
        return False
    return connection.status == ConnStatus.OK


def pass_on_notifications(connection: PGconn) -> None:
    """Pass to psycopg the notifications that came for the application in the meantime."""
    while (note := connection.notifies()) is not None:
        if connection.notify_handler is not None and not note.relname.startswith(
            OWN_CHANNEL_PREFIX
        ):
            connection.notify_handler(note)


def where_of(client: Any) -> str:  # noqa: ANN401 - the application's client
    """Return the location of an engine, pool or connection for display, without a password."""
    if is_engine(client):
        url = client.url
        return location_of_client("postgresql", url.host, url.port, url.database)
    if not is_pool(client):
        if client.closed:
            raise ConfigurationError(
                "the connection is closed, and the locks would not open another; give an open one, "
                "or a pool"
            )
        info = client.info
        return location_of_client("postgresql", info.host, info.port, info.dbname)
    # `conninfo` and `kwargs` may be functions, which only the pool may call.
    conninfo = client.conninfo if isinstance(client.conninfo, str) else ""
    more = client.kwargs if isinstance(client.kwargs, dict) else {}
    try:
        said = conninfo_to_dict(conninfo, **{k: v for k, v in more.items() if k in _LOCATION_KEYS})
    except ProgrammingError:
        said = {}  # the pool will report the error, which must not be quoted here
    return location_of_client("postgresql", *(said.get(one) for one in _LOCATION_KEYS))


_LOCATION_KEYS = ("host", "port", "dbname")

# Queries that set up a session of our own, and that begin and end a transaction.

# Every read on which a decision depends comes in a statement after the locking statement, and has
# to see what other clients committed before the lock was taken. The server's default isolation
# level may be different.
_BEGIN = Query("BEGIN ISOLATION LEVEL READ COMMITTED")
_COMMIT, _ROLL_BACK = (Query("COMMIT"),), (Query("ROLLBACK"),)


def _set(pinned: Sequence[Pinned], version: int, *, for_transaction: bool) -> Query:
    known = [one for one in pinned if version >= int(one.on or 0)]
    settings = ", ".join(
        f"set_config(${number}, ${number + 1}, {for_transaction})"
        for number in range(1, 2 * len(known), 2)
    )
    return Query(f"SELECT {settings}", [said for one in known for said in (one.name, one.value)])


def pinning(version: int) -> Query:
    """Return the query that pins a session of our own; `version` is a `server_version_num`."""
    return _set([*PINNED, *PINNED_FOR_SESSIONS], version, for_transaction=False)


# Requests sent in one round trip are one transaction even without framing.
FRAMING = Framing(begin=(_BEGIN,), commit=_COMMIT, roll_back=_ROLL_BACK)
"""How a transaction is framed on a session of our own, which is pinned."""


def framing_where_shared(version: int) -> Framing:
    """Return how a transaction is framed on a session that other clients use too.

    Such a session is behind a pooler, for example. The transaction pins the variables on which it
    relies, and these settings end with the transaction. Requests that only read are framed the same
    way.
    """
    begin = (_BEGIN, _set(PINNED, version, for_transaction=True))
    return Framing(begin, _COMMIT, _ROLL_BACK, opening=begin, closing=_COMMIT, frames_one=True)


# What the connections of both flavours have in common.


class LibpqConnection:
    """One connection, which a flavour's subclass connects, drives and watches.

    A borrowed connection goes back to the application after each request. Before that, the
    `restore_queries` are run.
    """

    __slots__ = (
        "__weakref__",
        "_clock",
        "_connection",
        "is_new",
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
        self.is_new: bool = True
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
