"""The contract on PostgreSQL over a psycopg pool that the application lends."""

from __future__ import annotations

from backends.postgresql.contract.on_postgresql import (
    AsyncContractOnPostgresql,
    ContractOnPostgresql,
)
from backends.sql.lent import AsyncLentPool, LentPool
from servers.postgresql import shared_server

from lockfast import AsyncBackend, Backend
from lockfast.backends.postgresql._async.backend import AsyncPostgresqlBackend
from lockfast.backends.postgresql._sync.backend import PostgresqlBackend
from lockfast.runtime.clock import Clock


def server_url() -> str:
    return shared_server().url()


class TestAsync(AsyncContractOnPostgresql):
    url = server_url

    def make_backend(self, clock: Clock) -> AsyncBackend:
        pool = AsyncLentPool(self.arguments["url"])
        self._to_close.append(pool)
        return AsyncPostgresqlBackend.from_client(
            pool, clock=clock, namespace=self.arguments["namespace"]
        )


class TestSync(ContractOnPostgresql):
    url = server_url

    def make_backend(self, clock: Clock) -> Backend:
        pool = LentPool(self.arguments["url"])
        self._to_close.append(pool)
        return PostgresqlBackend.from_client(
            pool, clock=clock, namespace=self.arguments["namespace"]
        )
