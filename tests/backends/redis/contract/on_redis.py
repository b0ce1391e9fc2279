"""The contract on Redis in any topology: a test module only says which servers to use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from lockfast import AsyncBackend, Backend
from lockfast.backends.redis._async.backend import AsyncRedisBackend
from lockfast.backends.redis._sync.backend import RedisBackend
from lockfast.core.server_options import SERVER_ALIASES
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract


class Servers(Protocol):
    """The URL and the client options of one server or of several."""

    url: str
    client_options: dict[str, str]


class OnRedis:
    """Opens backends on shared servers, in a new namespace for each test."""

    servers: ClassVar[Callable[[], Servers]]
    laws: ClassVar[tuple[int, ...]] = ()
    """The laws to run; empty means all.

    A subset is enough for a server that differs from the other servers in only one respect.
    """
    ttl = 0.3

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name in dir(cls):
            if cls.laws and name.startswith("test_") and int(name[9:11]) not in cls.laws:
                setattr(cls, name, None)

    def set_up(self) -> None:
        servers = type(self).servers()
        namespace = os.urandom(8).hex()
        where = {"url": servers.url, "location": servers.url, "namespace": namespace}
        # The options have the names of redis-py, which `Locks` translates.
        options = {
            SERVER_ALIASES.get(name, name): one for name, one in servers.client_options.items()
        }
        self.arguments: dict[str, Any] = {**where, **options}


class AsyncContractOnRedis(OnRedis, AsyncBackendContract):
    """The contract for asyncio backends; a subclass sets `servers`."""

    capabilities = AsyncRedisBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncRedisBackend(clock=clock, **self.arguments)


class ContractOnRedis(OnRedis, BackendContract):
    """The contract for sync backends; a subclass sets `servers`."""

    capabilities = RedisBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return RedisBackend(clock=clock, **self.arguments)
