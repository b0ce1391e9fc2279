"""Whether a connection of the application's can carry our requests, and that it is as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import BaseConnection, OperationalError, ProgrammingError
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import ConnStatus, PipelineStatus, TransactionStatus

from lockfast.backends.sql.clients import is_engine, is_pool, place
from lockfast.errors import BackendUnavailable, ConfigurationError
from lockfast.platforms import here

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn

OURS = b"lockfast_"
"""So our channels begin."""


def checked(connection: object, *, where: str) -> PGconn:
    """Return libpq's connection in it, or raise a sentence; a dead one is for the caller to see."""
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
        # Joined, the lock would be taken when that is committed, which others cannot see.
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
    """Whether the server is still there, as far as can be seen without asking it."""
    try:
        poll = here.Poll()
        if connection.status == ConnStatus.OK:
            poll.register(connection.socket, here.READ)
        # Its last words come before the end; notifications may come as well.
        while connection.status == ConnStatus.OK and poll.poll(0):
            connection.consume_input()
    except OperationalError:
        return False
    return connection.status == ConnStatus.OK


def pass_on_notifications(connection: PGconn) -> None:
    """Tell psycopg of what came for the application while we were at work."""
    while (note := connection.notifies()) is not None:
        if connection.notify_handler is not None and not note.relname.startswith(OURS):
            connection.notify_handler(note)


def where_of(client: Any) -> str:  # noqa: ANN401 - what the application has
    """Return where an engine, a pool or a connection leads, for people: without a password."""
    if is_engine(client):
        url = client.url
        return place("postgresql", url.host, url.port, url.database)
    if not is_pool(client):
        if client.closed:
            raise ConfigurationError(
                "the connection is closed, and the locks would not open another; give an open one, "
                "or a pool"
            )
        info = client.info
        return place("postgresql", info.host, info.port, info.dbname)
    # Either may be a function, which is for the pool alone to call.
    conninfo = client.conninfo if isinstance(client.conninfo, str) else ""
    more = client.kwargs if isinstance(client.kwargs, dict) else {}
    try:
        said = conninfo_to_dict(conninfo, **{k: v for k, v in more.items() if k in _PLACE})
    except ProgrammingError:
        said = {}  # the pool will say so, and this must not quote it
    return place("postgresql", *(said.get(one) for one in _PLACE))


_PLACE = ("host", "port", "dbname")
