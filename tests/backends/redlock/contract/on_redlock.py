"""The contract on five nodes, in whatever state: a registration says which, and nothing else."""

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
"""A ttl where no node is left to spare: on a busy machine one of them may stand still for long."""


@dataclass
class Store:
    """Where it is, and namespaces that were used before something was broken there."""

    url: str
    namespaces: list[str]
    node_timeout: float = 5.0
    """Not on trial: on a busy machine a node may stand still for so long."""
    ending: ExitStack = field(default_factory=ExitStack)
    """What is left when all have asked."""

    def stop(self) -> None:
        """End what is its own."""
        self.ending.close()


def namespaces() -> list[str]:
    """Return more than there are laws."""
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
    """Subclass it with `store`."""

    capabilities = AsyncRedlockBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncRedlockBackend(clock=clock, **self.arguments)


class ContractOnRedlock(OnRedlock, BackendContract):
    """Subclass it with `store`."""

    capabilities = RedlockBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return RedlockBackend(clock=clock, **self.arguments)
