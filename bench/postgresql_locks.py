"""Locks in PostgreSQL: ours, and what a user would pick instead."""

from __future__ import annotations

import warnings
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial

import psycopg
from tooz import coordination

import lockfast
from bench.sql_locks import (
    AsyncLocks,
    AsyncMaker,
    Maker,
    Pair,
    Request,
    async_dlocks,
    async_ours,
    async_pairs,
    dlock,
    updates,
)


def _url(port: int, scheme: str = "postgresql") -> str:
    return f"{scheme}://postgres@127.0.0.1:{port}/postgres"


def _by_sqlalchemy(port: int) -> str:
    return _url(port, "postgresql+psycopg")


def _connected(port: int) -> Callable[..., object]:
    connection = psycopg.connect(_url(port), autocommit=True)
    return partial(connection.execute, prepare=True)


def _advisory(number: int) -> tuple[Request, Request]:
    return ("SELECT pg_advisory_lock(%s)", (number,)), ("SELECT pg_advisory_unlock(%s)", (number,))


def _tooz(port: int) -> AbstractContextManager[object]:
    where = f"postgresql://postgres@127.0.0.1:{port}?dbname=postgres"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the driver is deprecated
        coordinator = coordination.get_coordinator(where, b"bench")
    coordinator.start()
    return coordinator.get_lock(b"ball")


async def _async_connected(port: int, stack: AsyncExitStack) -> Callable[..., Awaitable[object]]:
    connection = await psycopg.AsyncConnection.connect(_url(port), autocommit=True)
    stack.push_async_callback(connection.close)
    return partial(connection.execute, prepare=True)


CONTENDERS: dict[str, Maker] = {
    "lockfast": lambda port: lockfast.Locks(_url(port)).lock("ball"),
    "pg_advisory_lock": lambda port: Pair(_connected(port), *_advisory(0)),
    "sqlalchemy-dlock": lambda port: dlock(_by_sqlalchemy(port)),
    "tooz": _tooz,
}
"""Maps the name of each lock to its maker: ours first, then its competitors."""

ASYNC_CONTENDERS: dict[str, AsyncMaker] = {
    "lockfast": lambda port, count, stack: async_ours(_url(port), count, stack),
    "pg_advisory_lock": lambda port, count, stack: async_pairs(
        partial(_async_connected, port, stack), _advisory, count
    ),
    "sqlalchemy-dlock": lambda port, count, stack: async_dlocks(_by_sqlalchemy(port), count, stack),
}


def raw(port: int) -> AbstractContextManager[object]:
    """Return a block that commits once at its start and once at its end, by prepared statements."""
    return Pair(_connected(port), *updates(0))


async def async_raw(port: int, count: int, stack: AsyncExitStack) -> AsyncLocks:
    """Return `count` asyncio blocks with a commit at start and end, each on its own connection."""
    return await async_pairs(partial(_async_connected, port, stack), updates, count)
