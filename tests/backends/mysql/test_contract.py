"""The contract on a real MariaDB, in both flavours; `test_contract_mysql.py` runs it on MySQL."""

from __future__ import annotations

import os

from servers import mariadb

from lockfast import AsyncBackend, Backend
from lockfast.backends.mysql._async.backend import AsyncMysqlBackend
from lockfast.backends.mysql._sync.backend import MysqlBackend
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract


class Namespace:
    """Gives each test a namespace of its own; the tests share tables, as applications may."""

    shared_server = staticmethod(mariadb.shared_server)

    def set_up(self) -> None:
        server = self.shared_server()
        server.run("CREATE DATABASE IF NOT EXISTS test")
        self.options = {
            "url": server.url(),
            "location": f"{server.scheme}://{server.address}/test",
            "namespace": os.urandom(4).hex(),
        }


class TestAsync(Namespace, AsyncBackendContract):
    capabilities = AsyncMysqlBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncMysqlBackend(clock=clock, **self.options)


class TestSync(Namespace, BackendContract):
    capabilities = MysqlBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return MysqlBackend(clock=clock, **self.options)
