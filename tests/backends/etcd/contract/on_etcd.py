"""The contract on etcd: a test class only names the servers that it runs on."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from lockfast import AsyncBackend, Backend
from lockfast.backends.etcd._async.backend import AsyncEtcdBackend
from lockfast.backends.etcd._sync.backend import EtcdBackend
from lockfast.core.server_options import SERVER_ALIASES
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
        where = {"url": server.url, "location": server.url, "namespace": namespace}
        # The options have names of other libraries, which `Locks` translates.
        options = {
            SERVER_ALIASES.get(name, name): one for name, one in server.client_options.items()
        }
        self.arguments = {**where, **options}


class AsyncOnEtcd(OnEtcd):
    """Mixin that precedes the contract of the asyncio flavour."""

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncEtcdBackend(clock=clock, **self.arguments)


class SyncOnEtcd(OnEtcd):
    """Mixin that precedes the contract of the sync flavour."""

    def make_backend(self, clock: Clock) -> Backend:
        return EtcdBackend(clock=clock, **self.arguments)
