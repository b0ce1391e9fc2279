"""A SQL store that breaks: its server, the way to it, a name, and a stranger who locks its row.

A room says what its server is by the fixture `module_server`, and takes the others from here.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from both_flavours import Flavour
from fault_scene import WatchedName

from lockfast.challenge.servers.proxy import Proxy


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


class Stranger(Protocol):
    """Somebody else's transaction, which begins with its first lock."""

    def lock(self, name: str) -> None:
        """Lock the row of a name; waits if another has."""

    def is_waited_for(self) -> bool:
        """Whether somebody waits for what it has locked."""

    def end_who_waits(self) -> None:
        """Let the server end the sessions that wait so."""

    def let_go(self) -> None:
        """End the transaction."""

    def deadlocks(self) -> int:
        """Return how often the server has sent somebody away for another's sake."""


@pytest.fixture
def server(module_server, outliving) -> Iterator[Any]:
    """A server that serves when the test begins, and again when its clients close."""
    if not module_server.is_running:
        module_server.start()
    yield module_server
    if not module_server.is_running:
        module_server.start()
    module_server.resume()


@pytest.fixture
def url(server) -> str:
    return str(server.url())


@pytest.fixture
def proxy(server, outliving) -> Iterator[Proxy]:
    one = outliving.enter_context(Proxy(server.port))
    yield one
    one.accept()
    one.let_through()


@pytest.fixture
def proxied(server, url, proxy) -> str:
    return url.replace(server.address, proxy.address)


@pytest.fixture
def door(flavour, url, name) -> Door:
    """The name, seen over a way that is not broken; the tables are there then."""
    found = Door(flavour, url, name)
    found.line()
    return found
