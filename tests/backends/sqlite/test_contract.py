"""The contract on the embedded file, in real time."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lockfast import AsyncBackend, Backend
from lockfast.backends.sqlite._async.backend import AsyncSqliteBackend
from lockfast.backends.sqlite._sync.backend import SqliteBackend
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract


class _File:
    def set_up(self) -> None:
        self.directory = tempfile.TemporaryDirectory(prefix="lockfast-")
        self.path = Path(self.directory.name) / "locks.db"

    def tear_down(self) -> None:
        self.directory.cleanup()


class TestAsync(_File, AsyncBackendContract):
    capabilities = AsyncSqliteBackend.capabilities

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncSqliteBackend(path=self.path, clock=clock)


class TestSync(_File, BackendContract):
    capabilities = SqliteBackend.capabilities

    def make_backend(self, clock: Clock) -> Backend:
        return SqliteBackend(path=self.path, clock=clock)
