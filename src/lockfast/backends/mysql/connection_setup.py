"""The settings of a session, and how the session of a borrowed connection is restored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.mysql.session_variables import MARIADB, MYSQL, PINNED, SERVER_IDLE_SECONDS
from lockfast.backends.sql.foreign_clients import is_engine, location_of_client
from lockfast.backends.sql.steps import Framing, Query
from lockfast.errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sql.session_variables import Pinned
    from lockfast.backends.sql.steps import Rows

# The statements for a new connection, and for the start and end of a transaction.

IDLE_TRANSACTION_SECONDS = 3.0
"""How long a client may be idle in a transaction before the server ends its connection, in seconds.
Without this limit, a client that stops in the middle of a transaction, for example because its
machine sleeps, would keep the name locked for everyone until it continues."""


def for_each_pinned(form: Callable[[Pinned], str]) -> str:
    """Apply `form` to each pinned variable, and return the results separated by commas.

    Variables that only some servers have are in executable comments, so that a server reads only
    the variables that it has.
    """
    everywhere = ", ".join(form(one) for one in PINNED if not one.on)
    return everywhere + "".join(f" /*{one.on} , {form(one)} */" for one in PINNED if one.on)


SESSION_SETTINGS: Sequence[Query] = (
    # Every read on which a decision depends comes after the lock, and has to see what other clients
    # wrote before the lock was taken.
    Query("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", ()),
    Query(f"SET SESSION {for_each_pinned(lambda one: f'{one.name} = {one.value}')}", ()),
)
SERVER_FACTS_QUERY: Sequence[Query] = (
    *SESSION_SETTINGS,
    Query("SELECT SYSDATE(6), SLEEP(0.001), SYSDATE(6)", ()),
)

_IDLE = Query(f"SET SESSION wait_timeout = {SERVER_IDLE_SECONDS:.0f}", ())

FRAMING = Framing(
    begin=(
        Query(f"SET SESSION wait_timeout = {IDLE_TRANSACTION_SECONDS:.0f}", ()),
        Query("START TRANSACTION", ()),
    ),
    commit=(Query("COMMIT", ()), _IDLE),
    roll_back=(Query("ROLLBACK", ()), _IDLE),
    # This framing sets no idle timeout, because no client can be idle within a single round trip.
    opening=(Query("START TRANSACTION", ()),),
    closing=(Query("COMMIT", ()),),
)


def check_server(answers: Sequence[Rows], *, where: str) -> None:
    """Refuse a server whose clock stands still while a statement waits for a row."""
    [(before, _, after)] = answers[-1]
    if before == after:
        raise ConfigurationError(
            f"{where} was started with --sysdate-is-now, so it cannot tell the time after a "
            "lock was waited for; start it without"
        )


# Checks whether a borrowed connection can be used for our requests, and restores its session.

IN_TRANSACTION = 1
"""The bit that shows an open transaction, in the server status that comes with every reply."""

FROZEN_SECONDS = 2.0
"""If a session's statement time is further than this from the real time, it was fixed by SET
timestamp."""

# In the row, each value follows its name, because not every server has all of the variables.
_ISOLATION = "'isolation', @@SESSION"
_CLOCKS = "UNIX_TIMESTAMP(NOW(6)) - UNIX_TIMESTAMP(SYSDATE(6))"
LOOK = Query(
    f"SELECT 'clock', {_CLOCKS} /*{MARIADB} , {_ISOLATION}.tx_isolation */"
    f" /*{MYSQL} , {_ISOLATION}.transaction_isolation */, "
    + for_each_pinned(lambda one: f"'{one.name}', @@SESSION.{one.name}")
)
"""Reads the state of the session."""


def restore_statements(rows: Rows, *, where: str) -> Sequence[Query]:
    """Return the queries that restore the session, made from the answer to `LOOK`.

    Raises for a session with a clock of its own (`SET timestamp`), because no lease can be timed by
    such a clock, and resetting it would take a privilege that the user may lack.
    """
    [row] = rows
    found = dict(zip(row[::2], row[1::2], strict=True))
    if abs(found.pop("clock")) > FROZEN_SECONDS:
        raise BackendUnavailable(
            f"{where}: SET timestamp has stopped the clock of your connection, and a lease needs a "
            "running one; execute SET timestamp = DEFAULT, or give the locks another connection"
        )
    isolation = found.pop("isolation").replace("-", " ")
    return (
        # Clear the variables that our statements use to pass on values, because the values may be
        # long.
        Query("SET @lockfast_deeds = NULL, @lockfast_ready = NULL"),
        Query(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"),
        Query(f"SET SESSION {', '.join(f'{one} = %s' for one in found)}", tuple(found.values())),
    )


def checked_borrowed(connection: Any, driver: str, *, where: str) -> Any:  # noqa: ANN401 - a driver's
    """Return the connection, or raise if it is unsuitable; the caller checks that it is alive."""
    kind = type(connection)
    if driver not in {one.__module__.partition(".")[0] for one in kind.__mro__}:
        raise ConfigurationError(
            f"{where}: a connection of {driver} is needed, and this is one of "
            f"{kind.__module__}.{kind.__qualname__}"
        )
    charset = connection.character_set_name()
    if charset != "utf8mb4":
        raise ConfigurationError(
            f"{where}: the connection's charset is {charset}; locks need utf8mb4: connect with "
            "charset='utf8mb4'"
        )
    return connection


def refuse_transaction(status: int, *, where: str) -> None:
    """Raise if a transaction is open, because the first of our settings would commit it."""
    if status & IN_TRANSACTION:
        raise BackendUnavailable(
            f"{where}: your connection is in the middle of a transaction, which a lock can neither "
            "join nor commit; end it first, set autocommit, or give an engine"
        )


def where_of(client: Any) -> str:  # noqa: ANN401 - the application's client
    """Return the location of an engine or a connection for display, without a password."""
    if is_engine(client):
        return location_of_client("mysql", client.url.host, client.url.port, client.url.database)
    # The drivers have different names for these attributes.
    host, port = (
        getattr(client, one, None) or getattr(client, f"_{one}", "") for one in _LOCATION_KEYS
    )
    database = getattr(client, "db", None) or getattr(client, "_db", None)
    name = database.decode() if isinstance(database, bytes) else database
    return location_of_client("mysql", host, port, name)


_LOCATION_KEYS = ("host", "port")
