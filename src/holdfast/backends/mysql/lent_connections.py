"""Whether a connection of the application's can carry our requests, and how its session was."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from holdfast.backends.mysql.session import SETTINGS
from holdfast.backends.sql.clients import is_engine, place
from holdfast.backends.sql.steps import Ask
from holdfast.errors import BackendUnavailable, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.backends.sql.steps import Rows

IN_TRANSACTION = 1
"""The server says so with every answer, by this bit of its status."""

CHANGED = tuple(re.findall(r"(\w+) = ", " ".join(one.statement for one in SETTINGS)))
"""What our settings change, but for the isolation, which has a statement of its own."""


def look(server_version: str) -> Ask:
    """Return what asks how the session is."""
    # MariaDB from 11.1 on knows both names, MySQL 8 the second alone.
    isolation = "tx" if "mariadb" in server_version.lower() else "transaction"
    names = (f"{isolation}_isolation", *CHANGED)
    return Ask(f"SELECT {', '.join(f'@@SESSION.{one}' for one in names)}")


def restoring(rows: Rows) -> Sequence[Ask]:
    """Return what makes the session what it was, from the answer to `look`."""
    [(isolation, *values)] = rows
    return (
        # What our statements hand on to each other, and may be long.
        Ask("SET @holdfast_deeds = NULL, @holdfast_ready = NULL"),
        Ask(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation.replace('-', ' ')}"),
        Ask(f"SET SESSION {', '.join(f'{one} = %s' for one in CHANGED)}", values),
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
