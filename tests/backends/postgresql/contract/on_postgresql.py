"""The contract on PostgreSQL: a test module only says which URL to use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar

from lockfast import AsyncBackend, Backend
from lockfast.backends.postgresql._async.backend import AsyncPostgresqlBackend
from lockfast.backends.postgresql._sync.backend import PostgresqlBackend
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract


class OnPostgresql:
    """Opens backends on servers shared by all tests; each test has a namespace of its own."""

    url: ClassVar[Callable[[], str]]
    ttl = 0.3
    # Every grant is a commit, which waits for a disk that all other tests write to as well.
    slack = 3.0

    def set_up(self) -> None:
        url = type(self).url()
        self.arguments: dict[str, Any] = {
            "url": url,
            "location": url,
            "namespace": os.urandom(8).hex(),
        }


class AsyncContractOnPostgresql(OnPostgresql, AsyncBackendContract):
    """Subclass this class and set `url`."""

    capabilities = AsyncPostgresqlBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncPostgresqlBackend(clock=clock, **self.arguments)


class ContractOnPostgresql(OnPostgresql, BackendContract):
    """Subclass this class and set `url`."""

    capabilities = PostgresqlBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return PostgresqlBackend(clock=clock, **self.arguments)
