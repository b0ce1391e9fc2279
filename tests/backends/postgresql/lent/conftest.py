"""An application's connections to PostgreSQL, of each kind and in both flavours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from backends.sql import lent_puppet as lent_puppet_script
from backends.sql.lent import Lending, lent_connection, lent_engine, lent_pool
from puppets import Stage

KINDS = ("pool", "engine", "connection")


@pytest.fixture
def lend(flavour, server) -> Callable[..., Lending]:
    """Return a function that makes a lender of the given kind."""
    url = server.url()
    kind = psycopg.Connection if flavour.name == "sync" else psycopg.AsyncConnection

    def make(what: str, **options: Any) -> Lending:
        if what == "pool":
            return lent_pool(flavour, url, **options)
        if what == "engine":
            return lent_engine(flavour, url.replace(":", "+psycopg:", 1), **options)
        return lent_connection(flavour, partial(kind.connect, url, **options))

    return make


@pytest.fixture(params=KINDS)
def lending(request, lend) -> Lending:
    return lend(request.param)


@pytest.fixture
def ask(flavour) -> Callable[..., list[Any]]:
    """Return a function that queries as the application would, on a psycopg connection."""

    def run(connection: Any, statement: str, *values: object) -> list[Any]:
        if flavour.name == "sync":
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

        async def work() -> list[Any]:
            cursor = await connection.execute(statement, values or None)
            return await cursor.fetchall() if cursor.description else []

        return flavour.call(work)

    return run


@pytest.fixture
def held(flavour, server, name) -> Any:
    """A lease on a name, held by a client that has connections of its own."""
    return flavour.locks(server.url(), request_timeout=20.0).lock(name).acquire()


@pytest.fixture
def lent_puppet(tmp_path) -> Iterator[Stage]:
    """Processes that lock over their application's connections, and can fork."""
    stage = Stage(tmp_path, Path(lent_puppet_script.__file__))
    yield stage
    stage.clear_away()
