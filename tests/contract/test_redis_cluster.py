"""The contract on a cluster of three masters with a replica each."""

from __future__ import annotations

import os

from redis_topologies import shared_cluster

from holdfast import AsyncBackend, Backend
from holdfast._async.backends.redis import AsyncRedisBackend
from holdfast._sync.backends.redis import RedisBackend
from holdfast.runtime.clock import Clock
from holdfast.testing import AsyncBackendContract, BackendContract


class _Servers:
    ttl = 0.3

    def set_up(self) -> None:
        self.url = shared_cluster().url
        self.namespace = os.urandom(8).hex()


class TestAsync(_Servers, AsyncBackendContract):
    capabilities = AsyncRedisBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncRedisBackend(
            url=self.url, location=self.url, clock=clock, namespace=self.namespace
        )


class TestSync(_Servers, BackendContract):
    capabilities = RedisBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return RedisBackend(url=self.url, location=self.url, clock=clock, namespace=self.namespace)
