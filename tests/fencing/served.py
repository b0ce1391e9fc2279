"""An HTTP server in a separate process: served.py MARKS [WHERE]; it prints its port.

The server is as small as an ASGI server can be, with one request per connection. A PUT to /plain is
always accepted, a PUT to /fenced only with a token.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from contextlib import contextmanager
from typing import Any

import redis.asyncio

from lockfast.fencing import FencingMiddleware, MemoryMarks, RedisMarks, SqlMarks

LOCK = "dôor/ 1"


def marks_of(kind: str, where: str) -> Any:
    """Return the store of marks under test."""
    if kind == "memory":
        return MemoryMarks()
    if kind == "redis":
        return RedisMarks(redis.asyncio.Redis.from_url(where), prefix="http:")

    @contextmanager
    def connect():
        connection = sqlite3.connect(where, timeout=60)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    with connect() as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS lockfast_marks (name TEXT PRIMARY KEY, fence BIGINT)"
        )
    return SqlMarks(connect)


CONTENT: dict[str, bytes] = {}


async def application(scope: Any, receive: Any, send: Any) -> None:
    """Store the body of a PUT, and return that body on a GET."""
    if scope["method"] == "PUT":
        CONTENT[scope["path"]] = (await receive())["body"]
        shown = scope.get("lockfast.fencing")
        CONTENT[f"{scope['path']}/token"] = str(shown.token if shown else 0).encode()
    body = CONTENT.get(scope["path"], b"")
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": body})


async def serve(app: Any) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        method, path, _ = head[0].decode().split()
        headers = [tuple(one.split(b": ", 1)) for one in head[1:] if one]
        length = {name.lower(): value for name, value in headers}.get(b"content-length", b"0")
        body = await reader.readexactly(int(length))
        scope = {"type": "http", "method": method, "path": path, "headers": headers}

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                lines = [b"%b: %b" % one for one in message["headers"]]
                status = b"HTTP/1.1 %d Said" % message["status"]
                writer.write(b"\r\n".join([status, b"connection: close", *lines, b"", b""]))
            else:
                writer.write(message["body"])

        await app(scope, receive, send)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - the test reads it
    await server.serve_forever()


def lock_for(scope: Any) -> str | None:
    return None if scope["path"] == "/plain" else LOCK


if __name__ == "__main__":
    kind, where = [*sys.argv[1:], "", ""][:2]
    asyncio.run(
        serve(FencingMiddleware(application, marks=marks_of(kind, where), lock_for=lock_for))
    )
