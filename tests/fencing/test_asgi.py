"""The middleware: which requests it accepts, and how it answers the others."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import contextmanager
from typing import Any

import pytest
import redis.asyncio
from callers import ASYNC, Caller
from httpx2 import ASGITransport, AsyncClient
from servers.redis import shared_server
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from lockfast import ConfigurationError, LeaseLost, TokenUnavailable
from lockfast.fencing import (
    FencingMiddleware,
    MemoryMarks,
    RedisMarks,
    SqlMarks,
    fencing_headers,
)


class Site:
    """An application behind the middleware, and the requests that reached it."""

    def __init__(self, **options: Any) -> None:
        self.asked: list[Any] = []
        self._app = FencingMiddleware(self._application, **options)

    async def _application(self, scope, _receive, send) -> None:
        self.asked.append(scope.get("lockfast.fencing"))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def ask(self, *headers: tuple[str, Any], method: str = "POST", kind: str = "http") -> Any:
        """Return the status, and the problem document if there is one."""
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        given = [(name.lower().encode(), str(value).encode()) for name, value in headers]
        scope = {"type": kind, "method": method, "path": "/", "headers": given}
        asyncio.run(self._app(scope, None, send))
        start, body = sent
        if start["status"] == 204:
            return 204, None
        assert (b"content-type", b"application/problem+json") in start["headers"]
        assert (b"content-length", b"%d" % len(body["body"])) in start["headers"]
        return start["status"], json.loads(body["body"])

    def present(self, name: str, token: Any) -> Any:
        return self.ask(("Lockfast-Lock", name), ("Lockfast-Token", token))


def test_the_first_holder_and_each_later_one_are_let_in():
    site = Site()

    assert [site.present("door", token)[0] for token in (33, 33, 34)] == [204] * 3
    assert [one.token for one in site.asked] == [33, 33, 34]


def test_a_late_request_gets_a_412_with_a_problem_document():
    site = Site()
    site.present("door", 34)

    status, said = site.present("door", 33)

    assert status == said["status"] == 412
    assert said["type"] == "urn:lockfast:stale-token"
    assert (said["name"], said["token"], said["seen"]) == ("door", 33, 34)
    assert "stop, and take the lock again" in said["detail"]
    assert len(site.asked) == 1


def test_each_name_has_a_mark_of_its_own():
    site = Site()

    assert site.present("door", 34)[0] == site.present("gate", 33)[0] == 204


@pytest.mark.parametrize("headers", [(), ("Lockfast-Lock",), ("Lockfast-Token",)])
def test_a_request_without_both_headers_gets_a_428(headers):
    site = Site()

    status, said = site.ask(*((one, 33) for one in headers))

    assert (status, said["type"], site.asked) == (428, "urn:lockfast:token-required", [])


@pytest.mark.parametrize(
    "token",
    ["-1", "0", "+1", "033", "1.0", "1e3", "", " ", "0x21", "²", "٣", "1_0", str(2**53), "9" * 99],
)
def test_what_can_be_no_token_gets_a_400(token):
    site = Site()

    status, said = site.present("door", token)

    assert (status, said["type"], site.asked) == (400, "urn:lockfast:token-malformed", [])


@pytest.mark.parametrize("name", ["", "x" * 513, "%FF", "é", "%ED%A0%80"])
def test_what_can_be_no_name_gets_a_400(name):
    assert Site().present(name, 33)[0] == 400


def test_a_header_that_is_given_twice_gets_a_400():
    lock, token = ("Lockfast-Lock", "door"), ("Lockfast-Token", 33)

    assert Site().ask(lock, lock, token)[0] == 400
    assert Site().ask(lock, token, token)[0] == 400


def test_a_refused_request_does_not_raise_the_mark():
    site = Site(lock_for=lambda _scope: "door")
    site.present("gate", 99)
    site.present("door", 2**53)

    assert site.present("door", 1)[0] == 204


def test_the_lock_that_a_resource_asks_for_is_the_only_one_that_counts():
    site = Site(lock_for=lambda _scope: "door")

    status, said = site.present("gate", 33)

    assert status == 428
    assert "asks for the lock 'door', not for 'gate'" in said["detail"]
    assert Site(lock_for=lambda _scope: None).ask()[0] == 204


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE"])
def test_what_changes_nothing_passes(method):
    assert Site().ask(method=method)[0] == 204


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
def test_what_is_no_request_passes(kind):
    assert Site().ask(kind=kind)[0] == 204


@pytest.mark.parametrize("name", ["door", "a b", "é/ü?#&=%25", "🔒" * 128, "\t\r\n\0", "x" * 512])
def test_whatever_the_name_is_the_headers_carry_it(name):
    headers = fencing_headers((name, 33))
    site = Site()

    assert all(value.isascii() and value.isprintable() for value in headers.values())
    assert site.ask(*headers.items())[0] == 204
    assert (site.asked[0].name, site.asked[0].token) == (name, 33)


def test_headers_are_for_whoever_still_holds(locks):
    lease = locks.lock("door").acquire()
    assert fencing_headers(lease) == {
        "Lockfast-Lock": "door",
        "Lockfast-Token": str(lease.token),
    }
    locks.break_("door")

    with pytest.raises(LeaseLost):
        fencing_headers(lease)
    with locks.rwlock("book").read() as reader, pytest.raises(TokenUnavailable):
        fencing_headers(reader)


def test_it_works_in_an_application_of_starlettes_by_a_client_of_httpx():
    async def write(request):
        return PlainTextResponse(str(request.scope["lockfast.fencing"].token))

    site = Starlette(
        routes=[Route("/", write, methods=["PUT"])],
        middleware=[Middleware(FencingMiddleware, marks=MemoryMarks())],
    )

    async def asked() -> list[tuple[int, str]]:
        transport = ASGITransport(app=site)
        async with AsyncClient(transport=transport, base_url="http://here") as client:
            answers = [
                await client.put("/", headers=fencing_headers(("door", token)))
                for token in (34, 33)
            ]
        return [(one.status_code, one.headers["content-type"]) for one in answers]

    assert asyncio.run(asked()) == [
        (200, "text/plain; charset=utf-8"),
        (412, "application/problem+json"),
    ]


# Stores of marks.

NAMES = ("door", "DOOR", "dôor", "door ", "it's %s")


async def raised(marks: Any) -> list[int]:
    """Return a store's replies to tokens that go up and down, for several names."""
    found = [await marks.raise_to("door", token) for token in (33, 34, 33, 34, 2**53 - 1, 35)]
    return found + [await marks.raise_to(name, 7) for name in NAMES[1:]]


EXPECTED = [33, 34, 34, 34, 2**53 - 1, 2**53 - 1, 7, 7, 7, 7]


def test_marks_in_memory():
    assert asyncio.run(raised(MemoryMarks())) == EXPECTED


def test_marks_in_redis():
    async def flushed() -> list[int]:
        async with redis.asyncio.Redis(port=shared_server().port) as client:
            await client.flushdb()
            return await raised(RedisMarks(client))

    assert asyncio.run(flushed()) == EXPECTED
    with pytest.raises(ConfigurationError, match="is no client of Redis"):
        RedisMarks(object())


@pytest.mark.parametrize(
    ("kind", "collation"),
    [
        *(("sqlite3", ""), ("psycopg", ""), ("psycopg/async", "")),
        *(("pymysql", "utf8mb4_nopad_bin"), ("asyncmy", "utf8mb4_nopad_bin")),
        *(("pymysql/mysql", "utf8mb4_0900_bin"), ("asyncmy/mysql", "utf8mb4_0900_bin")),
    ],
)
def test_marks_in_a_table(kind, collation, tmp_path):
    caller = Caller(kind, tmp_path)
    binary = f" COLLATE {collation}" if collation else ""
    caller.run("DROP TABLE IF EXISTS lockfast_marks")
    caller.run(f"CREATE TABLE lockfast_marks (name VARCHAR(512){binary} PRIMARY KEY, fence BIGINT)")
    caller.commit()

    @contextmanager
    def connect():
        yield caller.connection
        caller.connection.commit()

    if kind in ASYNC:
        found = caller.call(raised, SqlMarks(lambda: Opened(caller.connection)))
    else:
        found = asyncio.run(raised(SqlMarks(connect)))

    assert found == EXPECTED
    caller.run("DROP TABLE lockfast_marks")
    caller.commit()
    caller.close()


class Opened:
    """Behaves like a connection from an asyncio pool: it is committed on its return to the pool."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def __aenter__(self) -> Any:
        return self._connection

    async def __aexit__(self, *error: object) -> None:
        await self._connection.commit()


def test_marks_that_cannot_be_reached_let_nothing_in(tmp_path):
    """A server error is better than a late write."""
    site = Site(marks=SqlMarks(contextmanager(_nowhere)))

    with pytest.raises(sqlite3.OperationalError):
        site.present("door", 33)
    assert site.asked == []


def _nowhere():
    yield sqlite3.connect("/nowhere/at/all.db")
