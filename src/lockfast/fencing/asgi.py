"""A middleware that lets no late holder's request reach an ASGI application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lockfast.fencing.headers import Problem, missing, read_headers, stale_request
from lockfast.fencing.marks import Marks, MemoryMarks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Any]]
    Send = Callable[[Any], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""They change nothing, by the rules of HTTP."""

KEY = "lockfast.fencing"
"""Where the application finds in its scope what was presented, to pass it on to another guard."""


class FencingMiddleware:
    """Answers a request with a late token itself: 412; one without a token: 428; malformed: 400.

    `marks` keeps the largest token of each name: MemoryMarks for one process, SqlMarks or
    RedisMarks for several. `lock_for(scope)` says which lock a request needs; another one is
    answered by 428, and None lets the request pass. Without it, every request that changes
    something needs some lock, whose name the client chooses.

    It looks when a request arrives. It does not stop one that was let in, and stands still in
    the application while a later holder's overtakes it: pass `scope["lockfast.fencing"]` on to
    the guard of the row or the key where that could be. Nor does it know who asks: whoever may
    send a request may send a token, also one that shuts all others out. Requests that are safe
    (GET, HEAD, OPTIONS, TRACE) and WebSockets pass. If the marks cannot be reached, the error is
    raised and nothing reaches the application.
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
        scope[KEY] = who


async def _answer(problem: Problem, send: Send) -> None:
    body = problem.body()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
