"""Whose connection it is, told by where its class stands: no driver is imported to find out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lockfast.connections.dialects import MYSQL, POSTGRESQL, SQLITE, Dialect
from lockfast.connections.statements import Marks
from lockfast.errors import ConfigurationError

ACCEPTED = (
    "a connection of sqlite3, psycopg 3, PyMySQL or Django's, or a connection or session of "
    "SQLAlchemy's; in asyncio one of psycopg 3, asyncmy or SQLAlchemy's"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """What has to be known of a connection to speak by it."""

    library: str
    """The package that its class stands in: sqlite3, psycopg, pymysql, asyncmy, ..."""
    dialect: Dialect
    marks: Marks
    is_asyncio: bool


_DRIVERS = {
    "sqlite3": (SQLITE, Marks.QUESTION, False),
    "psycopg": (POSTGRESQL, Marks.PERCENT, None),
    "pymysql": (MYSQL, Marks.PERCENT, False),
    "asyncmy": (MYSQL, Marks.PERCENT, True),
}
_SAID_BY_OTHERS = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL}


def kind_of(connection: Any, *, is_asyncio: bool) -> Kind:  # noqa: ANN401 - anybody's
    """Return what it is, or refuse a stranger and one of the other flavour in a sentence."""
    found = _told(connection)
    said = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if found is None:
        raise ConfigurationError(f"{said} is no connection that is known here: give {ACCEPTED}")
    if found.is_asyncio and not is_asyncio:
        raise ConfigurationError(
            f"{said} belongs to asyncio; call the asyncio form of this function, and await it"
        )
    if is_asyncio and not found.is_asyncio:
        raise ConfigurationError(
            f"{said} would block the event loop; give one for asyncio, or call the blocking form "
            "of this function in a thread (asyncio.to_thread)"
        )
    return found


def _told(connection: Any) -> Kind | None:  # noqa: ANN401 - anybody's
    roots = [one.__module__.partition(".")[0] for one in type(connection).__mro__]
    for root in roots:
        if root in _DRIVERS and hasattr(connection, "cursor") and hasattr(connection, "rollback"):
            dialect, marks, is_asyncio = _DRIVERS[root]
            return Kind(root, dialect, marks, _is_async(connection, is_asyncio=is_asyncio))
    said = _said(connection, roots)
    if said in _SAID_BY_OTHERS:
        library = "sqlalchemy" if "sqlalchemy" in roots else "django"
        marks = Marks.NAMED if library == "sqlalchemy" else Marks.PERCENT
        return Kind(library, _SAID_BY_OTHERS[said], marks, _is_async(connection))
    return None


def _said(connection: Any, roots: list[str]) -> str | None:  # noqa: ANN401 - anybody's
    """Return the database that a library over several drivers names."""
    if "sqlalchemy" in roots and hasattr(connection, "execute"):
        bound = connection.get_bind() if hasattr(connection, "get_bind") else connection
        return str(bound.dialect.name)
    return getattr(connection, "vendor", None) if "django" in roots else None


def _is_async(connection: object, *, is_asyncio: bool | None = None) -> bool:
    """Say it as the driver is known for, or by the name of the class, as they call theirs."""
    if is_asyncio is not None:
        return is_asyncio
    names = (one.__name__ for one in type(connection).__mro__)
    return any(one.startswith(("Async", "async_")) for one in names)
