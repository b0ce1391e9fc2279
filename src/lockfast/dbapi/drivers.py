"""Recognises the driver of a connection; handles its cursors, results and errors."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from lockfast.dbapi.statements import MYSQL, POSTGRESQL, SQLITE, DatabaseDialect, ParameterStyle
from lockfast.errors import ConfigurationError

# The result of a statement, in either flavour.


@dataclass(frozen=True, slots=True)
class StatementResult:
    """The number of rows that were changed, or the rows that were returned."""

    changed: int = 0
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Any, ...], ...] = ()

    def named(self) -> list[dict[str, Any]]:
        """Return the rows as dicts, by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def change_result(rowcount: int) -> StatementResult:
    """Return the result of a statement that returns no rows.

    MySQL may count only rows whose values changed, not all rows that were found. This is the
    default with PyMySQL and asyncmy, but not with SQLAlchemy.
    """
    if rowcount < 0:
        raise ConfigurationError(
            "the driver does not say how many rows were changed, as inside a pipeline of "
            "psycopg's: leave the pipeline first"
        )
    return StatementResult(changed=rowcount)


# A driver's cursor that returns plain tuples, whatever kind of rows the connection makes for its
# owner.


def plain_cursor(connection: Any, kind: DriverKind) -> Any:  # noqa: ANN401 - the driver's
    """Return a cursor for plain tuples, because other rows would have to be converted."""
    if kind.library == "psycopg":
        # A cursor from `connection.cursor()` may have another parameter style.
        driver, rows = import_module("psycopg"), import_module("psycopg.rows")
        make = driver.AsyncCursor if kind.is_asyncio else driver.Cursor
        return make(connection, row_factory=rows.tuple_row)
    if kind.library in {"pymysql", "asyncmy"}:
        # A cursor of the connection's default class may leave its rows on the server.
        return connection.cursor(import_module(f"{kind.library}.cursors").Cursor)
    cursor = connection.cursor()
    if kind.library == "sqlite3":
        cursor.row_factory = None
    return cursor


# Finds the driver's error inside an error of another library.
#
# The caller's own code may raise errors too, so an error counts as the driver's only if its class
# is in a driver's package.


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's error, or the given error if it does not contain one."""
    error = getattr(error, "orig", None) or error  # SQLAlchemy wraps the driver's error
    if library_of(error) == "django" and isinstance(error.__cause__, Exception):
        return error.__cause__
    return error


def library_of(error: BaseException) -> str:
    """Return the top-level package of the error's class."""
    return type(error).__module__.partition(".")[0]


def mysql_number(error: BaseException) -> int | None:
    """Return MySQL's error number; None if the error is not from MySQL."""
    if library_of(error) not in {"pymysql", "asyncmy"} or not error.args:
        return None
    number = error.args[0]
    return number if isinstance(number, int) else None


# Errors about a table, a column or a constraint that does not exist.
#
# All other errors are passed on as the driver raised them. The caller, or the framework around the
# caller, may have a way to handle them, such as repeating the transaction.

# PostgreSQL's sqlstates for a missing column, table, schema or unique key.
_STATES = frozenset({"42703", "42P01", "3F000", "42P10"})
# MySQL's error numbers for a missing column, table or database.
_NUMBERS = frozenset({1054, 1146, 1049})
_PHRASES = ("no such column", "no such table", "has no column named", "ON CONFLICT clause does not")


def names_missing_object(error: Exception) -> bool:
    """Return whether the error says that the statement named something that does not exist."""
    said = driver_error(error)
    if library_of(said) == "sqlite3":
        return any(one in str(said) for one in _PHRASES)
    return getattr(said, "sqlstate", None) in _STATES or mysql_number(said) in _NUMBERS


# Recognises a connection by the package of its class, so that no driver has to be imported.

ACCEPTED_CONNECTIONS = (
    "a connection of sqlite3, psycopg 3, PyMySQL or Django's, or a connection or session of "
    "SQLAlchemy's; in asyncio one of psycopg 3, asyncmy or SQLAlchemy's"
)


@dataclass(frozen=True, slots=True)
class DriverKind:
    """The properties of a connection that are needed to run statements on it."""

    library: str
    """The package of the connection's class: sqlite3, psycopg, pymysql, asyncmy, ..."""
    dialect: DatabaseDialect
    marks: ParameterStyle
    is_asyncio: bool


_DRIVERS = {
    "sqlite3": (SQLITE, ParameterStyle.QUESTION, False),
    "psycopg": (POSTGRESQL, ParameterStyle.PERCENT, None),
    "pymysql": (MYSQL, ParameterStyle.PERCENT, False),
    "asyncmy": (MYSQL, ParameterStyle.PERCENT, True),
}
_REPORTED_DATABASES = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "mysql": MYSQL, "mariadb": MYSQL}


def kind_of(connection: Any, *, is_asyncio: bool) -> DriverKind:  # noqa: ANN401 - any driver
    """Return the kind of the connection; raise if it is unknown or of the other flavour."""
    found = _recognised(connection)
    said = f"{type(connection).__module__}.{type(connection).__qualname__}"
    if found is None:
        raise ConfigurationError(
            f"{said} is no connection that is known here: give {ACCEPTED_CONNECTIONS}"
        )
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


def _recognised(connection: Any) -> DriverKind | None:  # noqa: ANN401 - any driver
    roots = [one.__module__.partition(".")[0] for one in type(connection).__mro__]
    for root in roots:
        if root in _DRIVERS and hasattr(connection, "cursor") and hasattr(connection, "rollback"):
            dialect, marks, is_asyncio = _DRIVERS[root]
            return DriverKind(root, dialect, marks, _is_async(connection, is_asyncio=is_asyncio))
    said = _reported_database(connection, roots)
    if said in _REPORTED_DATABASES:
        library = "sqlalchemy" if "sqlalchemy" in roots else "django"
        marks = ParameterStyle.NAMED if library == "sqlalchemy" else ParameterStyle.PERCENT
        return DriverKind(library, _REPORTED_DATABASES[said], marks, _is_async(connection))
    return None


def _reported_database(connection: Any, roots: list[str]) -> str | None:  # noqa: ANN401 - any driver
    """Return the database that a library for several databases reports."""
    if "sqlalchemy" in roots and hasattr(connection, "execute"):
        bound = connection.get_bind() if hasattr(connection, "get_bind") else connection
        return str(bound.dialect.name)
    return getattr(connection, "vendor", None) if "django" in roots else None


def _is_async(connection: object, *, is_asyncio: bool | None = None) -> bool:
    """Return whether the connection is for asyncio, judging by its driver or class name."""
    if is_asyncio is not None:
        return is_asyncio
    names = (one.__name__ for one in type(connection).__mro__)
    return any(one.startswith(("Async", "async_")) for one in names)
