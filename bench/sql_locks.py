"""Locks that are made in the same way in every SQL store, and blocks of two bare statements."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from typing import TypeAlias

import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy_dlock import create_async_sadlock, create_sadlock

import lockfast

Request: TypeAlias = tuple[str, tuple[object, ...]]
AsyncLocks: TypeAlias = list[AbstractAsyncContextManager[object]]

Maker: TypeAlias = Callable[[int], AbstractContextManager[object]]
"""Returns a lock on the server at this port; all objects from one maker are the same lock."""

AsyncMaker: TypeAlias = Callable[[int, int, AsyncExitStack], Awaitable[AsyncLocks]]
"""Returns this many different locks on the server at this port; the stack closes them."""


# -- two statements ----------------------------------------------------------------------


class Pair:
    """A block that runs and commits one statement at its start and another one at its end."""

    def __init__(self, run: Callable[..., object], first: Request, second: Request) -> None:
        self._run = run
        self._first = first
        self._second = second

    def __enter__(self) -> None:
        self._run(*self._first)

    def __exit__(self, *_: object) -> None:
        self._run(*self._second)


class AsyncPair:
    """A `Pair` for asyncio."""

    def __init__(
        self, run: Callable[..., Awaitable[object]], first: Request, second: Request
    ) -> None:
        self._run = run
        self._first = first
        self._second = second

    async def __aenter__(self) -> None:
        await self._run(*self._first)

    async def __aexit__(self, *_: object) -> None:
        await self._run(*self._second)


async def async_pairs(
    connect: Callable[[], Awaitable[Callable[..., Awaitable[object]]]],
    requests: Callable[[int], tuple[Request, Request]],
    count: int,
) -> AsyncLocks:
    """Return this many pairs, each on its own connection."""
    return [AsyncPair(await connect(), *requests(number)) for number in range(count)]


RAW = "CREATE TABLE raw (id int PRIMARY KEY, holder varchar(64) NOT NULL)"
ROW = "INSERT INTO raw VALUES (%s, '')"


def updates(number: int) -> tuple[Request, Request]:
    """Return the minimum that a lock in a row must do: set the holder, then clear it."""
    update = "UPDATE raw SET holder = %s WHERE id = %s"
    return (update, ("somebody", number)), (update, ("", number))


# -- locks -------------------------------------------------------------------------------


def dlock(url: str) -> AbstractContextManager[object]:
    """Return a sqlalchemy-dlock lock, on its own connection."""
    connection = sqlalchemy.create_engine(url).connect()
    return create_sadlock(connection, "ball", contextual_timeout=_timeout(url))


async def async_dlocks(url: str, count: int, stack: AsyncExitStack) -> AsyncLocks:
    """Return this many sqlalchemy-dlock locks, each on its own connection."""
    engine = create_async_engine(url, pool_size=count)
    stack.push_async_callback(engine.dispose)
    connections = [await stack.enter_async_context(engine.connect()) for _ in range(count)]
    timeout = _timeout(url)
    return [
        create_async_sadlock(one, f"ball-{number}", contextual_timeout=timeout)
        for number, one in enumerate(connections)
    ]


def _timeout(url: str) -> float | None:
    # Without a timeout sqlalchemy-dlock sends -1, which MariaDB rejects. On PostgreSQL it would
    # poll with a timeout.
    return 3600.0 if url.startswith("mysql") else None


async def async_ours(url: str, count: int, stack: AsyncExitStack) -> AsyncLocks:
    """Return this many of our locks, all made by one client."""
    # The timeout is long, because failures on a busy machine are not what is measured.
    locks = await stack.enter_async_context(lockfast.AsyncLocks(url, request_timeout=60.0))
    return [locks.lock(f"ball-{number}") for number in range(count)]
