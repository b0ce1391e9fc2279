"""A real MariaDB for all tests of a worker, and transports to it in both flavours."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from both_flavours import Flavour
from refusals import Refusals
from servers.mariadb import shared_server

from lockfast.backends.mysql._async.transport import AsyncMysqlTransport
from lockfast.backends.mysql._sync.transport import MysqlTransport
from lockfast.backends.mysql.address import address_of_url
from lockfast.backends.mysql.schema import MysqlTables
from lockfast.backends.sql.steps import Query
from lockfast_challenge.servers.mysql import MariadbServer

PATIENCE = 20.0
"""A timeout that only a hang exceeds, in seconds."""


class BlockingWire:
    """A transport of either flavour with blocking calls, and a long timeout by default."""

    def __init__(self, flavour: Flavour, url: str, **options: Any) -> None:
        kind = MysqlTransport if flavour.name == "sync" else AsyncMysqlTransport
        address = address_of_url(url, where="mariadb://here", options={})
        self.inner = flavour.call(lambda: kind(address, clock=flavour.clock, **options))
        self.flavour = flavour

    def _call(self, name: str, *arguments: Any, within: float = PATIENCE) -> Any:
        deadline = self.flavour.clock.now() + within
        return self.flavour.call(getattr(self.inner, name), *arguments, deadline=deadline)

    def ask(self, statement: str, *values: object, within: float = PATIENCE) -> Any:
        return self._call("ask", Query(statement, values), within=within)

    def run(self, request: Any) -> Any:
        return self._call("send_all", [request])[0]

    def run_all(self, requests: Any) -> Any:
        return self._call("send_all", requests)

    def transact(self, begin: Callable[[], Any], **more: Any) -> Any:
        return self._call("transact", begin, **more)

    def look(self, begin: Callable[[], Any], **more: Any) -> Any:
        return self._call("look", begin, **more)

    def close(self) -> None:
        self.flavour.call(self.inner.close)


@pytest.fixture
def server() -> MariadbServer:
    one = shared_server()
    one.run("CREATE DATABASE IF NOT EXISTS test")
    return one


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
def refusal(flavour, caplog) -> Refusals:
    """Return a callable that provokes a refusal, checks all output, and returns the error."""
    return Refusals([flavour], caplog, within=10.0)


@pytest.fixture
def scheme() -> str:
    return "mariadb"


@pytest.fixture
def tables(server) -> Iterator[MysqlTables]:
    """Existing tables that no other test uses."""
    found = MysqlTables(f"t{os.urandom(4).hex()}")
    for statement in found.definition():
        server.run(statement, database="test")
    yield found
    server.run(f"DROP TABLE {found.door}, {found.place}", database="test")


@pytest.fixture
def numbers(server) -> Iterator[str]:
    """A table of two rows that no other test uses."""
    name = f"n{os.urandom(4).hex()}"
    server.run(f"CREATE TABLE {name} (k int PRIMARY KEY, v int NOT NULL)", database="test")
    server.run(f"INSERT INTO {name} VALUES (1, 0), (2, 0)", database="test")
    yield name
    server.run(f"DROP TABLE {name}", database="test")


@pytest.fixture
def unmade(server) -> Iterator[MysqlTables]:
    """Tables that do not exist yet."""
    found = MysqlTables(f"t{os.urandom(4).hex()}")
    yield found
    server.run(f"DROP TABLE IF EXISTS {found.door}, {found.place}", database="test")
