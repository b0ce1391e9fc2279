"""The contract on a single Redis server."""

from __future__ import annotations

from redis_servers import shared_server

from holdfast import AsyncBackend, Backend
from holdfast._async.backends.redis import AsyncRedisBackend
from holdfast._sync.backends.redis import RedisBackend
from holdfast.runtime.clock import Clock
from holdfast.testing import AsyncBackendContract, BackendContract


class _Server:
    def set_up(self) -> None:
        self.server = shared_server()
        with self.server.client() as client:
            client.flushall()


class TestAsync(_Server, AsyncBackendContract):
    capabilities = AsyncRedisBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncRedisBackend(url=self.server.url, location=self.server.url, clock=clock)


class TestSync(_Server, BackendContract):
    capabilities = RedisBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return RedisBackend(url=self.server.url, location=self.server.url, clock=clock)
