"""How much a hold gives the garbage collector to look at, for as long as it lasts."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

from lockfast import AsyncLocks, Claim, Grant, Locks
from lockfast.backends.memory._async.backend import AsyncMemoryBackend
from lockfast.backends.memory._sync.backend import MemoryBackend
from lockfast.backends.memory.store import MemoryStore
from lockfast.runtime.clock import Clock

HOLDS = 500
FEW = 7
"""What the collector may find of one hold: hold, handle, lease, grant and claim, and by what two of
these are known. A list around each would be felt."""
OF_BLOCK = 2
"""What is added by a `with` statement: a block, and the bound method by which it is left."""
OF_TASK = 3
"""What is added by the task's first hold: whose it is, for the tasks that it will start."""


class AsyncOpenDoor(AsyncMemoryBackend):
    """Grants whatever it is asked for, and keeps nothing: what is found is the client's."""

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
    """With a thousand holds the collector takes a part of every cycle that is felt."""

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

    assert round(asyncio.run(main())) <= FEW + OF_BLOCK + OF_TASK


def test_a_hold_of_a_thread_gives_the_collector_few_objects_to_look_at() -> None:
    clock = Clock()
    with Locks.from_backend(OpenDoor(clock=clock, store=MemoryStore(clock))) as locks:
        made = [locks.lock(f"door-{one}") for one in range(HOLDS)]
        before = looked_at()
        leases = [one.acquire() for one in made]
        after = looked_at()
        for one in leases:
            one.release()

    assert round((after - before) / HOLDS) <= FEW


class Something:
    """What a hold may know weakly."""


def test_a_handle_is_known_beside_one_that_is_gone() -> None:
    """It may go between any two steps, and what is gone can no longer be hashed."""
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
