"""A real server for all tests of a worker, and transports to it in both flavours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour
from servers.postgresql import shared_server

from lockfast.backends.postgresql._async.transport import AsyncPostgresqlTransport
from lockfast.backends.postgresql._sync.transport import PostgresqlTransport
from lockfast.backends.postgresql.address import address_of_url
from lockfast.backends.postgresql.schema import PostgresqlTables
from lockfast.backends.sql.steps import Query
from lockfast_challenge.servers.postgresql import PostgresqlServer

PATIENCE = 20.0
"""A timeout that only a hang exceeds, in seconds."""


class BlockingWire:
    """A transport of either flavour with blocking calls, and a long timeout by default."""

    def __init__(self, flavour: Flavour, url: str, **options: Any) -> None:
        most = options.pop("most", 4)
        kind = PostgresqlTransport if flavour.name == "sync" else AsyncPostgresqlTransport
        address = address_of_url(url, where="postgresql://here", options=options)
        self.inner = flavour.call(partial(_made, kind, address, flavour.clock, most))
        self.flavour = flavour

    def _call(self, name: str, *arguments: Any, within: float = PATIENCE, **more: Any) -> Any:
        deadline = self.flavour.clock.now() + within
        return self.flavour.call(getattr(self.inner, name), *arguments, deadline=deadline, **more)

    def ask(self, statement: str, *values: object, within: float = PATIENCE) -> Any:
        return self._call("ask", Query(statement, values), within=within)

    def run(self, request: Any) -> Any:
        return self._call("send_all", [request])[0]

    def run_all(self, requests: Any, **more: Any) -> Any:
        return self._call("send_all", requests, **more)

    def transact(self, begin: Callable[[], Any], **more: Any) -> Any:
        return self._call("transact", begin, **more)

    def look(self, begin: Callable[[], Any], **more: Any) -> Any:
        return self._call("look", begin, **more)

    def subscribe(self, channel: str, hear: Callable[[str], None], **more: Any) -> Any:
        return self._call("subscribe", channel, hear, **more)

    def do(self, name: str, *arguments: Any, **more: Any) -> Any:
        return self.flavour.call(getattr(self.inner, name), *arguments, **more)

    def close(self) -> None:
        self.flavour.call(self.inner.close)


def _made(kind: Any, address: Any, clock: Any, most: int) -> Any:
    # The asyncio transport belongs to the loop that is running when it is made.
    return kind(address, clock=clock, most=most)


@pytest.fixture(params=FLAVOURS)
def flavour(request) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


@pytest.fixture
def server() -> PostgresqlServer:
    return shared_server()


@pytest.fixture
def wire_to(flavour: Flavour) -> Iterator[Callable[..., BlockingWire]]:
    """Return a function that opens transports, which are closed before their flavour."""
    opened: list[BlockingWire] = []

    def open_one(url: str, **options: Any) -> BlockingWire:
        opened.append(BlockingWire(flavour, url, **options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.fixture
def transport(wire_to, server) -> BlockingWire:
    return wire_to(server.url())


@pytest.fixture
def tables(server) -> Iterator[PostgresqlTables]:
    """Existing tables that no other test uses."""
    found = PostgresqlTables(table=f"t{os.urandom(4).hex()}")
    with server.connect() as connection:
        for statement in found.definition():
            connection.execute(statement)
        yield found
        connection.execute(f"DROP TABLE {found.door}, {found.place}")
