"""Renewals that queue behind the requests of a crowd, on the single worker of a SQLite client.

So every lease of the client expired while many tasks were waiting. The fix is that renewals and
releases go first (src/lockfast/runtime/worker.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from challenge.defects.putting_back import Defective, instead

from lockfast.errors import LockError
from lockfast.runtime.worker import TaskWorker, ThreadWorker
from lockfast_challenge.clients.lockfast_locks import AsyncContender, AsyncHeld

CROWD = 1000
"""Size of the crowd: serving all of them once takes longer than the ttl of half a second."""
HURRY = 0.05
"""Timeout of each acquire of the crowd, in seconds."""


@contextmanager
def defect() -> Iterator[None]:
    """Give priority to nothing."""
    with (
        instead(TaskWorker, "run_first", TaskWorker.run),
        instead(ThreadWorker, "run_first", ThreadWorker.run),
    ):
        yield


class Crowded(AsyncContender):
    """Lockfast's lock in a client that a crowd uses for another name while the lock is held."""

    def __init__(self, url: str, *, ttl: float, clock_ahead: float) -> None:
        super().__init__(url, ttl=ttl, clock_ahead=clock_ahead)
        self._crowd: list[asyncio.Task[None]] = []

    def acquire(self, name: str, *, timeout: float) -> Beside:
        held = super().acquire(name, timeout=timeout)
        self.on_loop(self._let_come(f"{name} crowded"))
        return Beside(self, held)

    def send_away(self) -> None:
        """End the crowd and wait until it is gone, so that it does not affect later operations."""
        self.on_loop(self._send_away())

    async def _let_come(self, name: str) -> None:
        lock = self._locks.lock(name, timeout=HURRY)

        async def come_and_go() -> None:
            while True:
                with suppress(LockError):
                    await (await lock.acquire()).release()

        self._crowd += [asyncio.create_task(come_and_go()) for _ in range(CROWD)]

    async def _send_away(self) -> None:
        for one in self._crowd:
            one.cancel()
        await asyncio.gather(*self._crowd, return_exceptions=True)
        self._crowd.clear()


class Beside:
    """A hold, and the crowd that leaves when it is released."""

    def __init__(self, crowded: Crowded, held: AsyncHeld) -> None:
        self._crowded = crowded
        self._held = held
        self.token = held.token
        self.check = held.check

    def release(self) -> None:
        try:
            self._held.release()
        finally:
            self._crowded.send_away()


class Contender(Defective, Crowded):
    defect = staticmethod(defect)
