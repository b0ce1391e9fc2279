"""An application's connections to MySQL and MariaDB, of each kind and in both flavours."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import asyncmy
import pymysql
import pytest
from backends.sql.lent import Lending, lent_connection, lent_engine


@pytest.fixture
def connect(flavour, server) -> Callable[..., Any]:
    """Return a function that connects as the application does; with asyncio it must be awaited."""
    where = {"host": "127.0.0.1", "port": server.port, "user": "root", "database": "test"}
    return partial(pymysql.connect if flavour.name == "sync" else asyncmy.connect, **where)


@pytest.fixture
def lend(flavour, server, connect) -> Callable[..., Lending]:
    """Return a function that makes a lender of the given kind."""
    driver = "pymysql" if flavour.name == "sync" else "asyncmy"

    def make(what: str, **options: Any) -> Lending:
        if what == "engine":
            url = f"mysql+{driver}://root@{server.address}/test"
            return lent_engine(flavour, url, **options)
        return lent_connection(flavour, partial(connect, **options))

    return make


@pytest.fixture(params=["engine", "connection"])
def lending(request, lend) -> Lending:
    return lend(request.param)


@pytest.fixture
def held(flavour, server, name) -> Any:
    """A lease on a name, held by a client that has connections of its own."""
    return flavour.locks(server.url(), request_timeout=20.0).lock(name).acquire()


@pytest.fixture
def ask(flavour) -> Callable[..., list[Any]]:
    """Return a function that queries as the application would, on a connection of the driver."""

    def run(connection: Any, statement: str) -> list[Any]:
        if flavour.name == "sync":
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())

        async def work() -> list[Any]:
            async with connection.cursor() as cursor:
                await cursor.execute(statement)
                return list(await cursor.fetchall())

        return flavour.call(work)

    return run
