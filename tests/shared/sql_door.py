"""A SQL store that fails: its server, a proxy to it, a name, and a stranger who locks its row.

A test folder defines its server in the fixture `module_server`, and takes all other fixtures from
this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from both_flavours import Flavour
from fault_scene import WatchedName

from lockfast_challenge.servers.proxy import Proxy


@dataclass(frozen=True)
class Where:
    """A store that has a URL and nothing else."""

    url: str


class Door(WatchedName):
    """The name under test, and clients that want to lock it."""

    def __init__(self, flavour: Flavour, url: str, name: str) -> None:
        super().__init__(flavour, Where(url), name)
        self.url = url

    def locks(self, **options: Any) -> Any:
        """Return a client."""
        return self._flavour.locks(self.url, **options)

    def wait_behind(self) -> Future[Any]:
        """Make another client wait for the lock."""
        return self._flavour.start(self.elsewhere().acquire, timeout=30)


class Stranger(Protocol):
    """Another program's transaction, which begins with its first lock."""

    def lock(self, name: str) -> None:
        """Lock the row of a name; wait if another transaction has locked the row."""

    def is_waited_for(self) -> bool:
        """Return whether another transaction waits for a lock of this transaction."""

    def end_waiters(self) -> None:
        """Make the server end the sessions that wait for this transaction."""

    def let_go(self) -> None:
        """End the transaction."""

    def deadlocks(self) -> int:
        """Return how many deadlock victims the server has chosen so far."""


@pytest.fixture
def server(module_server, outliving) -> Iterator[Any]:
    """A server that is running when the test begins, and again when its clients close."""
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
    """The name, seen over a connection that does not fail; its tables exist."""
    found = Door(flavour, url, name)
    found.line()
    return found
