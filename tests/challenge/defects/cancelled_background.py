"""A watchdog that is a task, and so is cancelled when a program cancels every task.

Bodies that are still finishing their work then lose their leases, because nothing renews the
leases. The fix is a watchdog that is not a task (src/lockfast/runtime/tasks.py).
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

from challenge.defects.putting_back import Defective, instead

from lockfast.runtime import aio
from lockfast_challenge.clients.lockfast_locks import AsyncContender, AsyncHeld


def defect() -> AbstractContextManager[None]:
    """Make the watchdog an ordinary task."""
    return instead(aio, "spawn_taskless", aio.spawn)


class CancelsAll(AsyncContender):
    """Lockfast's lock in a program that cancels all tasks as soon as it holds, as in a shutdown."""

    def acquire(self, name: str, *, timeout: float) -> AsyncHeld:
        held = super().acquire(name, timeout=timeout)
        self.on_loop(_cancel_all())
        return held


async def _cancel_all() -> None:
    for one in asyncio.all_tasks() - {asyncio.current_task()}:
        one.cancel()
    await asyncio.sleep(0)


class Contender(Defective, CancelsAll):
    defect = staticmethod(defect)
