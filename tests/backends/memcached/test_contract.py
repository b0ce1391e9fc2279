"""The contract on a real memcached, in both flavours, for what the backend declares."""

from __future__ import annotations

import os

from servers.memcached import shared_server

from lockfast import AsyncBackend, Backend
from lockfast.backends.memcached._async.backend import AsyncMemcachedBackend
from lockfast.backends.memcached._sync.backend import MemcachedBackend
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract


class _Namespace:
    """Gives each test a namespace of its own, because the tests share the server."""

    late = 2.0
    """Seconds by which a name may become free too late. The server counts whole seconds, we ask for
    one second more than the ttl, and an item may end at any moment of its last second."""

    def set_up(self) -> None:
        server = shared_server()
        namespace = os.urandom(4).hex()
        self.options = {"url": server.url, "location": server.url, "namespace": namespace}


class TestAsync(_Namespace, AsyncBackendContract):
    capabilities = AsyncMemcachedBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncMemcachedBackend(clock=clock, **self.options)


class TestSync(_Namespace, BackendContract):
    capabilities = MemcachedBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return MemcachedBackend(clock=clock, **self.options)
