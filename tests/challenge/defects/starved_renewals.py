"""Renewals that stand behind the questions of a crowd, on the one worker of a SQLite client.

So every lease of the client ran out while many waited by it. The mend is that renewals and releases
go first (src/lockfast/runtime/worker.py).
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
"""So many come and go: to answer all of them once takes longer than half a second, the ttl."""
HURRY = 0.05
"""So many seconds each of them waits."""


@contextmanager
def defect() -> Iterator[None]:
    """Let nobody go first."""
    with (
        instead(TaskWorker, "run_first", TaskWorker.run),
        instead(ThreadWorker, "run_first", ThreadWorker.run),
    ):
        yield


class Crowded(AsyncContender):
    """Lockfast's lock in a client by which a crowd asks for another name, while it holds."""

    def __init__(self, url: str, *, ttl: float, clock_ahead: float) -> None:
        super().__init__(url, ttl=ttl, clock_ahead=clock_ahead)
        self._crowd: list[asyncio.Task[None]] = []

    def acquire(self, name: str, *, timeout: float) -> Beside:
        held = super().acquire(name, timeout=timeout)
        self.on_loop(self._let_come(f"{name} crowded"))
        return Beside(self, held)

    def send_away(self) -> None:
        """Return when nobody of the crowd is left: what comes next is not on trial."""
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
    """What was acquired, and the crowd that goes when it is given back."""

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
