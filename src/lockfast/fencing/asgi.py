"""A middleware that keeps requests by late holders from reaching an ASGI application."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from lockfast.errors import ConfigurationError, StaleToken
from lockfast.fencing._async.redis import AsyncRedisGuard
from lockfast.fencing._async.sql import fenced_upsert as async_fenced_upsert
from lockfast.fencing._sync.sql import fenced_upsert
from lockfast.fencing.headers import Problem, missing, read_headers, stale_request

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from lockfast.dbapi.statements import Table

    Opening: TypeAlias = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]


# Where an HTTP server keeps the largest token of each name.
#
# A store of marks has one operation: `raise_to(name, token)` raises the mark of a name to the token
# if the token is larger, in one step, and returns the resulting mark.


class Marks(Protocol):
    """A store of marks."""

    async def raise_to(self, name: str, token: int) -> int:
        """Return the mark of the name: the token, or a larger token that was there before."""


class MemoryMarks:
    """Marks in the memory of one process, for a single server process and for tests.

    After a restart, the first token of a name is accepted, however late its holder is. The object
    keeps one number for each name that was ever sent.
    """

    def __init__(self) -> None:
        self._marks: dict[str, int] = {}

    async def raise_to(self, name: str, token: int) -> int:
        """Return the mark; nothing is awaited, so no other request can interfere."""
        mark = self._marks[name] = max(token, self._marks.get(name, 0))
        return mark


class SqlMarks:
    """Marks in a table of your database with a unique column `name` and a BIGINT `fence`.

    `connect` is called for each request and returns a context manager that yields a connection, and
    on exit commits and gives the connection back. Examples are the `begin` of an engine and the
    `connection` of a pool. A blocking context manager is entered, used and left in a thread. So for
    sqlite3, pass a function with `@contextmanager` that opens the connection on entry and closes it
    on exit. The name column has to compare byte by byte, so on MySQL give it a binary collation.
    """

    def __init__(self, connect: Callable[[], Opening], *, table: Table = "lockfast_marks") -> None:
        self._connect = connect
        self._table = table

    async def raise_to(self, name: str, token: int) -> int:
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
    """Marks in Redis, one key per name: `prefix` and the name; `client` is from redis.asyncio.

    The marks are only as safe as that server's data; see RedisGuard.
    """

    def __init__(self, client: Any, *, prefix: str = "lockfast:mark:") -> None:  # noqa: ANN401 - not installed with us
        if not isinstance(prefix, str):
            raise ConfigurationError("prefix is the beginning of a key, a str")
        self._client = client
        self._prefix = prefix
        # Create a guard now, because it refuses anything but a client, before the first request.
        AsyncRedisGuard(client, prefix)

    async def raise_to(self, name: str, token: int) -> int:
        try:
            await AsyncRedisGuard(self._client, self._prefix + name).seal((name, token))
        except StaleToken as error:
            return error.seen
        return token


if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Any]]
    Send = Callable[[Any], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""HTTP methods that, by definition, change nothing."""

SCOPE_KEY = "lockfast.fencing"
"""The key in the scope for the presented name and token, which the application may pass on to
another guard.
"""


class FencingMiddleware:
    """Refuses bad requests itself: 412 for a late token, 428 for a missing one, 400 if malformed.

    `marks` keeps the largest token of each name: MemoryMarks for one process, SqlMarks or
    RedisMarks for several. `lock_for(scope)` returns the name of the lock that a request needs. A
    request that presents another lock gets 428; if `lock_for` returns None, the request passes
    without a check. Without `lock_for`, every request that changes something needs a lock, but the
    client chooses which.

    The middleware checks each request on arrival. It does not stop a request that has passed and is
    then paused in the application, while a later holder's request overtakes it. Where this can
    happen, pass `scope["lockfast.fencing"]` on to the guard of the row or the key. The middleware
    does not authenticate: every client that may send a request may send a token, even a token so
    large that all other clients are shut out. Safe requests (GET, HEAD, OPTIONS, TRACE) and
    WebSockets pass. If the marks cannot be reached, the error is raised and the request does not
    reach the application.
    """

    def __init__(
        self,
        app: Application,
        *,
        marks: Marks | None = None,
        lock_for: Callable[[Scope], str | None] | None = None,
    ) -> None:
        self._app = app
        self._marks = MemoryMarks() if marks is None else marks
        self._lock_for = lock_for

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] not in SAFE_METHODS:
            try:
                await self._check(scope)
            except Problem as problem:
                await _answer(problem, send)
                return
        await self._app(scope, receive, send)

    async def _check(self, scope: Scope) -> None:
        needed = None
        if self._lock_for is not None and (needed := self._lock_for(scope)) is None:
            return
        who = read_headers(scope["headers"])
        if needed is not None and who.name != needed:
            raise missing(f"this resource asks for the lock {needed!r}, not for {who.name!r}")
        mark = await self._marks.raise_to(who.name, who.token)
        if mark > who.token:
            raise stale_request(who, mark)
        scope[SCOPE_KEY] = who


async def _answer(problem: Problem, send: Send) -> None:
    body = problem.body()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
