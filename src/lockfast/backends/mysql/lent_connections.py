"""Whether a connection of the application's can carry our requests, and how its session was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.backends.mysql.session import for_each_pinned
from lockfast.backends.mysql.session_variables import MARIADB, MYSQL
from lockfast.backends.sql.clients import is_engine, place
from lockfast.backends.sql.steps import Ask
from lockfast.errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.sql.steps import Rows

IN_TRANSACTION = 1
"""The server says so with every answer, by this bit of its status."""

FROZEN_SECONDS = 2.0
"""A session whose statements all begin so far from the present was told what time it is."""

# Each value stands behind its name: which there are differs from server to server.
_ISOLATION = "'isolation', @@SESSION"
_CLOCKS = "UNIX_TIMESTAMP(NOW(6)) - UNIX_TIMESTAMP(SYSDATE(6))"
LOOK = Ask(
    f"SELECT 'clock', {_CLOCKS} /*{MARIADB} , {_ISOLATION}.tx_isolation */"
    f" /*{MYSQL} , {_ISOLATION}.transaction_isolation */, "
    + for_each_pinned(lambda one: f"'{one.name}', @@SESSION.{one.name}")
)
"""Asks how the session is."""


def restoring(rows: Rows, *, where: str) -> Sequence[Ask]:
    """Return what makes the session what it was, from the answer to `LOOK`.

    Raises for a session with a clock of its own (`SET timestamp`): by that no lease can be counted,
    and to set it right would take a right that the user may lack.
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
        # What our statements hand on to each other, and may be long.
        Ask("SET @lockfast_deeds = NULL, @lockfast_ready = NULL"),
        Ask(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"),
        Ask(f"SET SESSION {', '.join(f'{one} = %s' for one in found)}", tuple(found.values())),
    )


def checked(connection: Any, driver: str, *, where: str) -> Any:  # noqa: ANN401 - a driver's
    """Return the connection, or raise a sentence; a dead one is for the caller to see."""
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
    """Raise if a transaction is open: the first of our settings would commit it."""
    if status & IN_TRANSACTION:
        raise BackendUnavailable(
            f"{where}: your connection is in the middle of a transaction, which a lock can neither "
            "join nor commit; end it first, set autocommit, or give an engine"
        )


def where_of(client: Any) -> str:  # noqa: ANN401 - what the application has
    """Return where an engine or a connection leads, for people: without a password."""
    if is_engine(client):
        return place("mysql", client.url.host, client.url.port, client.url.database)
    # Each driver has its own names for these.
    host, port = (getattr(client, one, None) or getattr(client, f"_{one}", "") for one in _PLACE)
    database = getattr(client, "db", None) or getattr(client, "_db", None)
    name = database.decode() if isinstance(database, bytes) else database
    return place("mysql", host, port, name)


_PLACE = ("host", "port")
