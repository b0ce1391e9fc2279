"""The laws of holding and failing on a real MariaDB, over a borrowed SQLAlchemy engine.

The other laws exercise nothing about connections that these laws do not exercise. Over a pool, all
laws run on PostgreSQL.
"""

from __future__ import annotations

import os

from backends.sql.lent import LentEngine
from servers.mariadb import shared_server

from lockfast import AsyncBackend, Backend
from lockfast.backends.mysql._async.backend import AsyncMysqlBackend
from lockfast.backends.mysql._sync.backend import MysqlBackend
from lockfast.runtime.clock import Clock
from lockfast.testing._async.contract.exclusion import AsyncLawsOfExclusion
from lockfast.testing._async.contract.failures import AsyncLawsOfFailure
from lockfast.testing._sync.contract.exclusion import LawsOfExclusion
from lockfast.testing._sync.contract.failures import LawsOfFailure


class _Namespace:
    """Gives each test a namespace of its own; the tests share tables, as applications may."""

    slack = 3.0

    def set_up(self) -> None:
        server = shared_server()
        server.run("CREATE DATABASE IF NOT EXISTS test")
        self.place = f"root@{server.address}/test"
        self.namespace = os.urandom(4).hex()


class TestAsync(_Namespace, AsyncLawsOfExclusion, AsyncLawsOfFailure):
    capabilities = AsyncMysqlBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        lent = LentEngine(f"mysql+asyncmy://{self.place}", is_asyncio=True)
        self._to_close.append(lent)
        return AsyncMysqlBackend.from_client(lent.engine, clock=clock, namespace=self.namespace)


class TestSync(_Namespace, LawsOfExclusion, LawsOfFailure):
    capabilities = MysqlBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        lent = LentEngine(f"mysql+pymysql://{self.place}", is_asyncio=False)
        self._to_close.append(lent)
        return MysqlBackend.from_client(lent.engine, clock=clock, namespace=self.namespace)
