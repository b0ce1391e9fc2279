"""Connections as an application opens them, of every library, used through blocking calls.

A test is written once: asyncio connections run on their own loop.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncmy
import psycopg
import pymysql
from own_loop import Loop
from servers import mariadb, mysql, postgresql
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

DATABASE = "callers"

SYNC = (
    *("sqlite3", "sqlite/connection", "sqlite/session", "django"),
    *("psycopg", "postgresql/connection", "postgresql/session"),
    *("pymysql", "pymysql/mysql", "mysql/connection", "mysql/session"),
)
ASYNC = (
    *("psycopg/async", "postgresql/async-connection", "postgresql/async-session"),
    *("asyncmy", "asyncmy/mysql", "mysql/async-connection", "mysql/async-session"),
)
ALL = SYNC + ASYNC
ONE_OF_EACH = ("sqlite3", "psycopg", "pymysql")

_DATABASES = {
    "sqlite3": "sqlite",
    "django": "sqlite",
    "psycopg": "postgresql",
    "pymysql": "mysql",
    "asyncmy": "mysql",
}


def database_of(kind: str) -> str:
    """Return sqlite, postgresql or mysql."""
    first = kind.partition("/")[0]
    return _DATABASES.get(first, first)


class Caller:
    """A connection of the application, through the library that `kind` names."""

    def __init__(self, kind: str, directory: Path) -> None:
        self.kind = kind
        self.database = database_of(kind)
        self._file = directory / "callers.db"
        self._loop = Loop() if kind in ASYNC else None
        self._engine: Any = None
        self.connection = self._opened()

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the result of a function, awaited if the connection is asyncio's."""
        if self._loop is None:
            return function(*arguments, **options)
        return self._loop.call(function, *arguments, **options)

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as the application would, without values."""
        if self._engine is not None:
            found = self.call(self.connection.execute, text(statement.replace(":", r"\:")))
            return [tuple(one) for one in found.fetchall()] if found.returns_rows else []
        cursor = self.connection.cursor()
        self.call(cursor.execute, statement)
        rows = self.call(cursor.fetchall) if cursor.description else []
        self.call(cursor.close)
        return [tuple(one) for one in rows]

    def commit(self) -> None:
        self.call(self.connection.commit)

    def rollback(self) -> None:
        self.call(self.connection.rollback)

    def quoted(self, name: str) -> str:
        mark = "`" if self.database == "mysql" else '"'
        return mark + name.replace(mark, mark * 2) + mark

    def close(self) -> None:
        self.call(self.connection.close)
        if self._engine is not None:
            self.call(self._engine.dispose)
        if self._loop is not None:
            self._loop.stop()

    def _opened(self) -> Any:
        openers = {
            "sqlite3": lambda: sqlite3.connect(self._file, timeout=60, check_same_thread=False),
            "django": lambda: _django(self._file),
            "psycopg": lambda: psycopg.connect(postgresql.shared_server().url()),
            "psycopg/async": lambda: self.call(
                psycopg.AsyncConnection.connect, postgresql.shared_server().url()
            ),
            "pymysql": lambda: pymysql.connect(**_place(mariadb)),
            "pymysql/mysql": lambda: pymysql.connect(**_place(mysql)),
            "asyncmy": lambda: self.call(_asyncmy, _place(mariadb)),
            "asyncmy/mysql": lambda: self.call(_asyncmy, _place(mysql)),
        }
        what = self.kind.partition("/")[2]
        return openers.get(self.kind, lambda: self._of_sqlalchemy(what))()

    def _of_sqlalchemy(self, what: str) -> Any:
        is_async = self._loop is not None
        make = create_async_engine if is_async else create_engine
        self._engine = make(_url(self.database, self._file, is_async=is_async), poolclass=NullPool)
        if what.endswith("session"):
            return (AsyncSession if is_async else Session)(self._engine)
        return self.call(self._engine.connect)


async def _asyncmy(place: dict[str, Any]) -> Any:
    # Do not start the server here: a server ends with the thread that started it.
    return await asyncmy.connect(**place)


def _place(servers: ModuleType) -> dict[str, Any]:
    """Return the address of a MariaDB or MySQL server; the kinds use `mysql/…` for both."""
    server = servers.shared_server()
    server.run(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
    return {"host": "127.0.0.1", "port": server.port, "user": "root", "database": DATABASE}


def _url(database: str, file: Path, *, is_async: bool) -> str:
    if database == "sqlite":
        return f"sqlite:///{file}"
    if database == "postgresql":
        return postgresql.shared_server().url().replace("postgresql:", "postgresql+psycopg:")
    driver = "asyncmy" if is_async else "pymysql"
    return f"mysql+{driver}://root@127.0.0.1:{_place(mariadb)['port']}/{DATABASE}"


def _django(file: Path) -> Any:
    """Return a Django connection, without the settings of a whole site."""
    import django  # noqa: PLC0415 - imported only where it is used
    from django.conf import settings  # noqa: PLC0415 - as above
    from django.db.utils import ConnectionHandler  # noqa: PLC0415 - as above

    if not settings.configured:
        settings.configure(USE_TZ=True, LOGGING_CONFIG=None)
        django.setup()
    one = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(file), "AUTOCOMMIT": False}
    return ConnectionHandler({"default": one})["default"]
