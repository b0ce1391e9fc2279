"""The contract on etcd: a test class only names the servers that it runs on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from lockfast import AsyncBackend, Backend
from lockfast.backends.etcd._async.backend import AsyncEtcdBackend
from lockfast.backends.etcd._sync.backend import EtcdBackend
from lockfast.runtime.clock import Clock


class OnEtcd:
    """Opens backends on servers shared by all tests; each test has a namespace of its own."""

    servers: ClassVar[Callable[[], Any]]
    capabilities = EtcdBackend.capabilities
    ttl = 1.0  # Leases last whole seconds.
    late = 0.6  # The server checks for expired leases twice a second.
    slack = 2.5  # The name is free one ttl after a client noticed that the holder failed.

    def set_up(self) -> None:
        server, namespace = type(self).servers(), os.urandom(8).hex()
        self.arguments = {
            "url": server.url,
            "location": server.url,
            "namespace": namespace,
            **server.client_options,
        }


class AsyncOnEtcd(OnEtcd):
    """Mixin that precedes the contract of the asyncio flavour."""

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncEtcdBackend(clock=clock, **self.arguments)


class SyncOnEtcd(OnEtcd):
    """Mixin that precedes the contract of the sync flavour."""

    def make_backend(self, clock: Clock) -> Backend:
        return EtcdBackend(clock=clock, **self.arguments)
