"""The contract on five nodes in any state: a test module only says which nodes to use."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lockfast import AsyncBackend, Backend
from lockfast.backends.redlock._async.backend import AsyncRedlockBackend
from lockfast.backends.redlock._sync.backend import RedlockBackend
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract

EACH_COUNTS = 0.5
"""The ttl in seconds where every live node is needed: on a busy machine a node may stall."""


@dataclass
class Store:
    """The nodes' URL, and namespaces that were set up before the test broke any node."""

    url: str
    namespaces: list[str]
    node_timeout: float = 5.0
    """Generous, because the timeout is not under test and a node may stall on a busy machine."""
    ending: ExitStack = field(default_factory=ExitStack)
    """Closes the servers and proxies when all tests have run."""

    def stop(self) -> None:
        """Stop the servers and proxies of this store."""
        self.ending.close()


def namespaces() -> list[str]:
    """Return more namespaces than there are laws."""
    return [os.urandom(8).hex() for _ in range(300)]


class OnRedlock:
    """Opens backends on shared nodes, in a new namespace for each test."""

    store: ClassVar[Callable[[], Store]]
    ttl = 0.3

    def set_up(self) -> None:
        store = type(self).store()
        self.arguments: dict[str, Any] = {
            "url": store.url,
            "location": store.url,
            "namespace": store.namespaces.pop(),
            "node_timeout": store.node_timeout,
        }


class AsyncContractOnRedlock(OnRedlock, AsyncBackendContract):
    """The contract for asyncio backends; a subclass sets `store`."""

    capabilities = AsyncRedlockBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncRedlockBackend(clock=clock, **self.arguments)


class ContractOnRedlock(OnRedlock, BackendContract):
    """The contract for sync backends; a subclass sets `store`."""

    capabilities = RedlockBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return RedlockBackend(clock=clock, **self.arguments)
