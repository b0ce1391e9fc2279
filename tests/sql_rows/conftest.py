"""Fixtures for the tests of the caller's own rows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from databases import NAMES, WAYS, Database
from sellers import Shop, opened

from lockfast import AsyncLocks, Locks

KINDS = (
    "psycopg",
    "psycopg asyncio",
    "pymysql",
    "sqlalchemy connection",
    "sqlalchemy connection asyncio",
    "sqlalchemy session",
    "sqlalchemy session asyncio",
)


@pytest.fixture(params=KINDS)
def kind(request) -> str:
    """The library that runs the transaction."""
    found: str = request.param
    return found


@pytest.fixture
def shop(kind, tmp_path) -> Iterator[Shop]:
    with opened(kind, tmp_path) as one:
        yield one


@pytest.fixture
def url(tmp_path) -> str:
    """The URL of the store of locks."""
    return f"sqlite://{tmp_path}/locks.db"


@pytest.fixture
def locks(url) -> Iterator[Locks]:
    with Locks(url, request_timeout=30) as one:
        yield one


@pytest.fixture
def others(url) -> Iterator[Locks]:
    """Another client of the same store."""
    with Locks(url, request_timeout=30) as one:
        yield one


@pytest.fixture
def play(kind, url) -> Callable[[Callable[..., Coroutine[Any, Any, Any]]], Any]:
    """Run a scene with two clients of one store of locks, in the flavour of the library."""

    def run(scene: Callable[..., Coroutine[Any, Any, Any]]) -> Any:
        async def played() -> Any:
            make = AsyncLocks if kind.endswith("asyncio") else Locks
            clients = [make(url, request_timeout=30) for _ in "ab"]
            try:
                return await scene(*clients)
            finally:
                for one in clients:
                    if isinstance(one, AsyncLocks):
                        await one.aclose()
                    else:
                        one.close()

        return asyncio.run(played())

    return run


@pytest.fixture(params=WAYS)
def database(request, tmp_path) -> Database:
    """A database, used through each library in turn."""
    return Database(request.param, tmp_path)


@pytest.fixture(params=NAMES)
def plain(request, tmp_path) -> Database:
    """Each database once, through its blocking driver."""
    return Database(request.param, tmp_path)
