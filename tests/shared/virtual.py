"""A client on an in-memory store, in virtual time, whose store can fail."""

from __future__ import annotations

import asyncio
from typing import Any

from lockfast import AsyncLocks
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.testing import AsyncFaultyBackend, VirtualClock, VirtualTimeLoop


def virtual_clock() -> VirtualClock:
    """Return the clock of the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    return VirtualClock(loop)


def virtual(
    store: MemoryStore | None = None, **options: Any
) -> tuple[AsyncLocks, AsyncFaultyBackend]:
    """Return a client and its backend, which fails on command."""
    clock = virtual_clock()
    inner = AsyncMemoryBackend(clock=clock, store=store or MemoryStore(clock))
    backend = AsyncFaultyBackend(inner, clock=clock)
    return AsyncLocks.from_backend(backend, clock=clock, **options), backend
