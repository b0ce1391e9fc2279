"""Locks that are made alike in every SQL store; and two statements as the block of a lock."""

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
"""Returns a lock at the server on that port; all of one maker are the same lock."""

AsyncMaker: TypeAlias = Callable[[int, int, AsyncExitStack], Awaitable[AsyncLocks]]
"""Returns so many different locks at the server on that port; the stack lets go of them."""


# -- two statements ----------------------------------------------------------------------


class Pair:
    """One statement at the beginning of a block, and one at its end; each is committed."""

    def __init__(self, run: Callable[..., object], first: Request, second: Request) -> None:
        self._run = run
        self._first = first
        self._second = second

    def __enter__(self) -> None:
        self._run(*self._first)

    def __exit__(self, *_: object) -> None:
        self._run(*self._second)


class AsyncPair:
    """The same in asyncio."""

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
    """Return so many pairs, each on a connection of its own."""
    return [AsyncPair(await connect(), *requests(number)) for number in range(count)]


RAW = "CREATE TABLE raw (id int PRIMARY KEY, holder varchar(64) NOT NULL)"
ROW = "INSERT INTO raw VALUES (%s, '')"


def updates(number: int) -> tuple[Request, Request]:
    """Return the least that a lock in a row must do: write the holder, then clear it."""
    update = "UPDATE raw SET holder = %s WHERE id = %s"
    return (update, ("somebody", number)), (update, ("", number))


# -- locks -------------------------------------------------------------------------------


def dlock(url: str) -> AbstractContextManager[object]:
    """Return one of sqlalchemy-dlock's, on a connection of its own."""
    connection = sqlalchemy.create_engine(url).connect()
    return create_sadlock(connection, "ball", contextual_timeout=_timeout(url))


async def async_dlocks(url: str, count: int, stack: AsyncExitStack) -> AsyncLocks:
    """Return so many of sqlalchemy-dlock's, each on a connection of its own."""
    engine = create_async_engine(url, pool_size=count)
    stack.push_async_callback(engine.dispose)
    connections = [await stack.enter_async_context(engine.connect()) for _ in range(count)]
    timeout = _timeout(url)
    return [
        create_async_sadlock(one, f"ball-{number}", contextual_timeout=timeout)
        for number, one in enumerate(connections)
    ]


def _timeout(url: str) -> float | None:
    # Without one it says -1, which MariaDB refuses; on PostgreSQL it would poll with one.
    return 3600.0 if url.startswith("mysql") else None


async def async_ours(url: str, count: int, stack: AsyncExitStack) -> AsyncLocks:
    """Return so many of ours, of one client."""
    # A busy machine is not on trial.
    locks = await stack.enter_async_context(lockfast.AsyncLocks(url, request_timeout=60.0))
    return [locks.lock(f"ball-{number}") for number in range(count)]
