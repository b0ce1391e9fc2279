"""The contract on an ensemble of three ZooKeeper servers."""

from __future__ import annotations

import os

from servers.zookeeper import shared_patient_ensemble

from lockfast import AsyncBackend, Backend
from lockfast.backends.zookeeper._async.backend import AsyncZooKeeperBackend
from lockfast.backends.zookeeper._sync.backend import ZooKeeperBackend
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract
from lockfast_challenge.servers.zookeeper import TICK_SECONDS


class _Servers:
    ttl = 0.5
    late = 2 * TICK_SECONDS

    def set_up(self) -> None:
        self.url = shared_patient_ensemble().url
        self.namespace = os.urandom(8).hex()


class TestAsync(_Servers, AsyncBackendContract):
    capabilities = AsyncZooKeeperBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncZooKeeperBackend(
            url=self.url, location=self.url, clock=clock, namespace=self.namespace
        )


class TestSync(_Servers, BackendContract):
    capabilities = ZooKeeperBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return ZooKeeperBackend(
            url=self.url, location=self.url, clock=clock, namespace=self.namespace
        )
