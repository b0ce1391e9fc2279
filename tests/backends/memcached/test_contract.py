"""The contract on a real memcached, in both flavours: what it declares, no more and no less."""

from __future__ import annotations

import os

from servers.memcached import shared_server

from lockfast import AsyncBackend, Backend
from lockfast.backends.memcached._async.backend import AsyncMemcachedBackend
from lockfast.backends.memcached._sync.backend import MemcachedBackend
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract


class _Namespace:
    """A namespace for each test; they share the server."""

    late = 2.0
    """Seconds by which a name may become free too late: the server counts whole seconds, is asked
    for one more, and may end an item at any moment of its last one."""

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
