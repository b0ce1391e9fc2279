"""How many objects a hold adds to the work of the garbage collector, for as long as it lasts."""

from __future__ import annotations

import asyncio
import contextvars
import gc
from typing import Any

from lockfast import AsyncLocks, Claim, Grant, Locks
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory._sync.backend import MemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.runtime.clock import Clock

HOLDS = 500
MEASUREMENTS = 3
FEW = 7
"""Objects that the collector may find for one hold.

These are hold, handle, lease, grant and claim, and the weak references to two of them. A list
around each object would be noticeable.
"""
OF_BLOCK = 2
"""Objects that a `with` statement adds: a block, and the bound method that leaves it."""
OF_TASK = 3
"""Objects that a task's first hold adds: its owner, as seen by the tasks that it will start."""


class AsyncOpenDoor(AsyncMemoryBackend):
    """Grants every request and keeps nothing, so that only the client's objects are found."""

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant:
        del deadline
        return Grant(claim, 1, claim.ttl)

    async def release(self, *_: Any, **__: Any) -> bool:
        return True


class OpenDoor(MemoryBackend):
    """The same for threads."""

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant:
        del deadline
        return Grant(claim, 1, claim.ttl)

    def release(self, *_: Any, **__: Any) -> bool:
        return True


def looked_at() -> int:
    gc.collect()
    return len(gc.get_objects())


def test_a_hold_of_a_task_gives_the_collector_few_objects_to_look_at() -> None:
    """With a thousand holds the collector takes a noticeable part of every cycle."""

    async def main() -> float:
        clock = Clock()
        locks = AsyncLocks.from_backend(AsyncOpenDoor(clock=clock, store=MemoryStore(clock)))
        entering, leaving, passed = asyncio.Event(), asyncio.Event(), asyncio.Semaphore(0)

        async def work(name: str) -> None:
            lock = locks.lock(name)
            passed.release()
            await entering.wait()
            async with lock:
                passed.release()
                await leaving.wait()

        async def all_have_passed() -> None:
            for _ in range(HOLDS):
                await passed.acquire()

        tasks = [asyncio.create_task(work(f"door-{one}")) for one in range(HOLDS)]
        await all_have_passed()
        before = looked_at()
        entering.set()
        await all_have_passed()
        after = looked_at()
        leaving.set()
        await asyncio.gather(*tasks)
        await locks.aclose()
        return (after - before) / HOLDS

    # Other threads of this process may create objects meanwhile, which can only raise the count.
    # A context of its own, because each variable that other tests have left in this thread's
    # context may add a node to the tree that stores a task's variables.
    found = min(contextvars.Context().run(asyncio.run, main()) for _ in range(MEASUREMENTS))
    assert round(found) <= FEW + OF_BLOCK + OF_TASK


def test_a_hold_of_a_thread_gives_the_collector_few_objects_to_look_at() -> None:
    def measured() -> float:
        clock = Clock()
        with Locks.from_backend(OpenDoor(clock=clock, store=MemoryStore(clock))) as locks:
            made = [locks.lock(f"door-{one}") for one in range(HOLDS)]
            before = looked_at()
            leases = [one.acquire() for one in made]
            after = looked_at()
            for one in leases:
                one.release()
        return (after - before) / HOLDS

    assert round(min(measured() for _ in range(MEASUREMENTS))) <= FEW


class Something:
    """An object that a hold may reference weakly."""


def test_a_handle_is_known_beside_one_that_is_gone() -> None:
    """A handle may be collected between any two steps, and can then no longer be hashed."""
    with Locks("memory://") as locks, locks.lock("door") as lease:
        hold, known = lease._hold, lease._hold._handles
        hold._handles = None
        gone, there = Something(), Something()
        hold.add(gone)  # type: ignore[arg-type]
        del gone
        gc.collect()

        hold.add(there)  # type: ignore[arg-type]

        assert hold.handles() == [there]
        hold._handles = known
