"""A real server that may break, a proxy before it, and processes that can be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import pytest
from both_flavours import Flavour
from fault_scene import WatchedName
from servers.postgresql import PostgresqlServer
from servers.proxy import Proxy

from holdfast.backends.postgresql.exchange import name_of
from holdfast.backends.postgresql.schema import Tables
from holdfast.backends.postgresql.statements import Statements

OURS = "application_name = 'holdfast'"
"""Which sessions of the server are those of clients."""

LISTENING = f"{OURS} AND query LIKE 'LISTEN%'"


def is_listening(server: PostgresqlServer) -> bool:
    """Whether a client hears what it is told."""
    return bool(server.run(f"SELECT 1 FROM pg_stat_activity WHERE {LISTENING}"))


@dataclass(frozen=True)
class Where:
    """A store that has a URL and nothing else."""

    url: str


class Door(WatchedName):
    """The name, and clients that want it."""

    def __init__(self, flavour: Flavour, url: str, name: str) -> None:
        super().__init__(flavour, Where(url), name)
        self.url = url

    def locks(self, **options: Any) -> Any:
        """Return a client."""
        return self._flavour.locks(self.url, **options)

    def wait_behind(self) -> Future[Any]:
        """Let another client wait for it."""
        return self._flavour.start(self.elsewhere().acquire, timeout=30)


@dataclass(frozen=True)
class Said:
    """By which bytes a request is known on its way, be it prepared or not."""

    take: bytes
    take_new: bytes
    release: bytes


@pytest.fixture(scope="module")
def module_server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as one:
        yield one


@pytest.fixture
def server(module_server, outliving) -> Iterator[PostgresqlServer]:
    """A server that serves when the test begins, and again when its clients close."""
    if not module_server.is_running:
        module_server.start()
    yield module_server
    if not module_server.is_running:
        module_server.start()
    module_server.resume()


@pytest.fixture
def url(server) -> str:
    return server.url()


@pytest.fixture
def proxy(server, outliving) -> Iterator[Proxy]:
    one = outliving.enter_context(Proxy(server.port, scheme="postgresql"))
    yield one
    one.accept()
    one.let_through()


@pytest.fixture
def proxied(proxy) -> str:
    return f"postgresql://postgres@{proxy.address}/postgres"


@pytest.fixture
def door(flavour, url, name) -> Door:
    """The name, seen over a way that is not broken; the tables are there then."""
    found = Door(flavour, url, name)
    found.line()
    return found


@pytest.fixture(scope="session")
def said() -> Said:
    found = Statements(Tables(), namespace="holdfast")
    return Said(*(name_of(one) for one in (found._take, found._take_new, found._release)))


@pytest.fixture
def blocked(server) -> Callable[[Any], bool]:
    """Say whether somebody waits for what another session has locked."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    return lambda other: server.run(waits, other.info.backend_pid)[0][0] > 0
