"""Locks in MariaDB: ours, and what a user would pick instead."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, AsyncExitStack
from functools import partial

import asyncmy
import pymysql
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


def _url(port: int, scheme: str = "mariadb") -> str:
    return f"{scheme}://root@127.0.0.1:{port}/test"


def _connected(port: int) -> Callable[..., object]:
    connection = pymysql.connect(
        host="127.0.0.1", port=port, user="root", database="test", autocommit=True
    )
    return connection.cursor().execute


def _advisory(number: int) -> tuple[Request, Request]:
    name = f"ball-{number}"
    return ("SELECT GET_LOCK(%s, %s)", (name, 3600)), ("SELECT RELEASE_LOCK(%s)", (name,))


def _tooz(port: int) -> AbstractContextManager[object]:
    coordinator = coordination.get_coordinator(_url(port, "mysql"), b"bench")
    coordinator.start()
    return coordinator.get_lock(b"ball")


async def _async_connected(port: int, stack: AsyncExitStack) -> Callable[..., Awaitable[object]]:
    connection = await asyncmy.connect(
        host="127.0.0.1", port=port, user="root", database="test", autocommit=True
    )
    stack.push_async_callback(connection.ensure_closed)
    cursor = connection.cursor()
    return cursor.execute


CONTENDERS: dict[str, Maker] = {
    "lockfast": lambda port: lockfast.Locks(_url(port)).lock("ball"),
    "GET_LOCK": lambda port: Pair(_connected(port), *_advisory(0)),
    "sqlalchemy-dlock": lambda port: dlock(_url(port, "mysql+pymysql")),
    "tooz": _tooz,
}
"""Maps the name of each lock to its maker: ours first, then its competitors."""

ASYNC_CONTENDERS: dict[str, AsyncMaker] = {
    "lockfast": lambda port, count, stack: async_ours(_url(port), count, stack),
    "GET_LOCK": lambda port, count, stack: async_pairs(
        partial(_async_connected, port, stack), _advisory, count
    ),
    "sqlalchemy-dlock": lambda port, count, stack: async_dlocks(
        _url(port, "mysql+asyncmy"), count, stack
    ),
}


def raw(port: int) -> AbstractContextManager[object]:
    """Return a block that commits once at its start and once at its end, on one connection."""
    return Pair(_connected(port), *updates(0))


async def async_raw(port: int, count: int, stack: AsyncExitStack) -> AsyncLocks:
    """Return `count` asyncio blocks with a commit at start and end, each on its own connection."""
    return await async_pairs(partial(_async_connected, port, stack), updates, count)
