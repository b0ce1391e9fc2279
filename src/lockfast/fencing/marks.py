"""Where a server of HTTP keeps the largest token of each name.

A store of marks has one verb: `raise_to(name, token)` raises the mark of a name to the token if
that is larger, in one step, and returns the mark as it then is. A smaller token changes nothing.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lockfast.errors import ConfigurationError, StaleToken
from lockfast.fencing._async.redis import AsyncRedisGuard
from lockfast.fencing._async.sql import fenced_upsert as async_fenced_upsert
from lockfast.fencing._sync.sql import fenced_upsert

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lockfast.connections.dialects import Table

    Opening: TypeAlias = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]


class Marks(Protocol):
    """A store of marks."""

    async def raise_to(self, name: str, token: int) -> int:
        """Return the mark of the name: the token, or a larger one that was there before."""


class MemoryMarks:
    """Marks of one process, gone with it: for one server process, and for tests.

    After a restart the first token of a name is accepted, however late it is. It keeps one
    number for each name that was ever sent.
    """

    def __init__(self) -> None:
        self._marks: dict[str, int] = {}

    async def raise_to(self, name: str, token: int) -> int:
        """See Marks; nothing is awaited, so that no other request comes between."""
        mark = self._marks[name] = max(token, self._marks.get(name, 0))
        return mark


class SqlMarks:
    """Marks in a table of your database: a unique column `name`, and a BIGINT `fence`.

    `connect` is called for each request and returns a context manager that gives a connection,
    commits when it is left and gives it back: an engine's `begin`, a pool's `connection`. One
    that blocks is entered, used and left in a thread: a connection of sqlite3 has to be made when
    it is entered, by a function with `@contextmanager` that also closes it. The column of the name
    has to compare byte by byte: on MySQL give it a binary collation.
    """

    def __init__(self, connect: Callable[[], Opening], *, table: Table = "lockfast_marks") -> None:
        self._connect = connect
        self._table = table

    async def raise_to(self, name: str, token: int) -> int:
        """See Marks."""
        write: tuple[Any, ...] = (self._table, {"name": name}, (name, token), {})
        opening = self._connect()
        try:
            if isinstance(opening, AbstractAsyncContextManager):
                async with opening as connection:
                    await async_fenced_upsert(connection, *write)
            else:
                await asyncio.to_thread(partial(_write, opening, *write))
        except StaleToken as error:
            return error.seen
        return token


def _write(opening: AbstractContextManager[Any], *write: Any) -> None:  # noqa: ANN401 - passed on
    with opening as connection:
        fenced_upsert(connection, *write)


class RedisMarks:
    """Marks in Redis, each in a key: `prefix` and the name; `client` is one of redis.asyncio.

    As sure as that server: see RedisGuard.
    """

    def __init__(self, client: Any, *, prefix: str = "lockfast:mark:") -> None:  # noqa: ANN401 - not installed with us
        if not isinstance(prefix, str):
            raise ConfigurationError("prefix is the beginning of a key, a str")
        self._client = client
        self._prefix = prefix
        AsyncRedisGuard(client, prefix)  # refuse what is no client, before the first request

    async def raise_to(self, name: str, token: int) -> int:
        """See Marks."""
        try:
            await AsyncRedisGuard(self._client, self._prefix + name).seal((name, token))
        except StaleToken as error:
            return error.seen
        return token
