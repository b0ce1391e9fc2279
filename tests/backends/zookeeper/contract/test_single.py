"""The contract on one ZooKeeper server."""

from __future__ import annotations

import os

from servers.zookeeper import shared_server

from lockfast import AsyncBackend, Backend
from lockfast.backends.zookeeper._async.backend import AsyncZooKeeperBackend
from lockfast.backends.zookeeper._sync.backend import ZooKeeperBackend
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract
from lockfast_challenge.servers.zookeeper import TICK_SECONDS


class _Server:
    ttl = 0.5
    late = 2 * TICK_SECONDS

    def set_up(self) -> None:
        self.url = shared_server().url
        self.namespace = os.urandom(8).hex()


class TestAsync(_Server, AsyncBackendContract):
    capabilities = AsyncZooKeeperBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncZooKeeperBackend(
            url=self.url, location=self.url, clock=clock, namespace=self.namespace
        )


class TestSync(_Server, BackendContract):
    capabilities = ZooKeeperBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return ZooKeeperBackend(
            url=self.url, location=self.url, clock=clock, namespace=self.namespace
        )
