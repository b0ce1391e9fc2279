"""A look-out that is a task, and ends with all others when a program cancels every task.

Bodies that finish their work under their leases then lose them: nobody renews. The mend is a
look-out that is none (src/lockfast/runtime/tasks.py).
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager

from challenge.defects.putting_back import Defective, instead

from lockfast.runtime import aio
from lockfast_challenge.clients.lockfast_locks import AsyncContender, AsyncHeld


def defect() -> AbstractContextManager[None]:
    """Let it be a task like any other."""
    return instead(aio, "spawn_taskless", aio.spawn)


class CancelsAll(AsyncContender):
    """Lockfast's lock in a program that cancels all tasks as soon as it holds, as at its end."""

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
