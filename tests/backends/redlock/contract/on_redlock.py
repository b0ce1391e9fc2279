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
"""The ttl where no node can be spared: on a busy machine one of them may stall for long."""


@dataclass
class Store:
    """The URL of the nodes, and namespaces that were used before something was broken there."""

    url: str
    namespaces: list[str]
    node_timeout: float = 5.0
    """Not under test, so it is generous: on a busy machine a node may stall for that long."""
    ending: ExitStack = field(default_factory=ExitStack)
    """What to close when all tests have run."""

    def stop(self) -> None:
        """Close everything that it owns."""
        self.ending.close()


def namespaces() -> list[str]:
    """Return more namespaces than there are laws."""
    return [os.urandom(8).hex() for _ in range(300)]


class OnRedlock:
    """Opens backends on nodes that all tests share, each in a namespace of its own."""

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
    """Subclass it and set `store`."""

    capabilities = AsyncRedlockBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncRedlockBackend(clock=clock, **self.arguments)


class ContractOnRedlock(OnRedlock, BackendContract):
    """Subclass it and set `store`."""

    capabilities = RedlockBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return RedlockBackend(clock=clock, **self.arguments)
