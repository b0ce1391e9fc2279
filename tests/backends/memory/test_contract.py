"""The contract on the memory store."""

from __future__ import annotations

from lockfast import AsyncBackend, Backend
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory._sync.backend import MemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.runtime.clock import Clock
from lockfast.testing import AsyncBackendContract, BackendContract


class TestAsync(AsyncBackendContract):
    """Runs in virtual time, because the store uses the client's clock."""

    capabilities = AsyncMemoryBackend.capabilities
    virtual_time = True

    def set_up(self) -> None:
        self.store = MemoryStore(self.clock)

    def make_backend(self, clock: Clock) -> AsyncBackend:
        return AsyncMemoryBackend(clock=clock, store=self.store)


class TestSync(BackendContract):
    capabilities = MemoryBackend.capabilities

    def set_up(self) -> None:
        self.store = MemoryStore(self.clock)

    def make_backend(self, clock: Clock) -> Backend:
        return MemoryBackend(clock=clock, store=self.store)
