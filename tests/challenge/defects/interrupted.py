"""An acquire or a release that an interrupt ends halfway, and that is never completed.

The claim stays, and is renewed for as long as the process lives. The fix is that every operation
belongs to an object from its start, and that the client completes whatever is dropped unfinished
(docs/decisions/0007-interrupts.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from challenge.defects.putting_back import Defective, instead

from lockfast import Lease, Lock
from lockfast.client._sync.acquisition import Acquisition
from lockfast.client._sync.handle import ReleaseGuard
from lockfast.errors import LeaseLost, NotAcquired, NotOwner
from lockfast_challenge.clients.lockfast_locks import SyncContender, SyncHeld
from lockfast_challenge.contender import NotGranted


def _nothing(_: object) -> None:
    """Clean up nothing after an interrupt."""


@contextmanager
def defect() -> Iterator[None]:
    """Do not complete operations that were dropped."""
    with instead(Acquisition, "__del__", _nothing), instead(ReleaseGuard, "__del__", _nothing):
        yield


class StillHeld(Exception):
    """A name is still held although no block is active any more."""


class KeptLocks(SyncContender):
    """Acquires names of its own before the door, with locks that live on like module-level ones.

    A lease is given up soon after its lock object is dropped, and re-entering a name takes over
    what an interrupt has left there. So a leftover shows only at a name that is not acquired again,
    and whose lock lives on. At the end, none of these names may be held.
    """

    def __init__(self, url: str, *, ttl: float, clock_ahead: float) -> None:
        super().__init__(url, ttl=ttl, clock_ahead=clock_ahead)
        self._prefix = f"names of {os.getpid()}"
        self._kept: list[Lock] = []

    def acquire(self, name: str, *, timeout: float) -> SyncHeld:
        for _ in range(NAMES):
            self._kept.append(self._locks.lock(f"{self._prefix}: {len(self._kept)}"))
            with self._kept[-1]:
                pass
        # A generator, because an interrupt that drops the generator also leaves its `with` block.
        block = _block(self._locks.lock(name, timeout=timeout))
        try:
            return InBlock(next(block), block)
        except NotAcquired as error:
            raise NotGranted(str(error)) from error

    def __exit__(self, *error: object) -> None:
        deadline = time.monotonic() + SOON
        while (held := list(self._locks.survey(self._prefix))) and time.monotonic() < deadline:
            time.sleep(0.05)
        super().__exit__(*error)
        if held:
            raise StillHeld(", ".join(one.name for one in held))


NAMES = 20
"""Names per turn, so that a client spends most of its time where an interrupt may do harm."""
SOON = 5.0
"""Far more than cleaning up in the background takes, even on a busy machine."""


def _block(door: Lock) -> Iterator[Lease]:
    with door as lease:
        yield lease


class InBlock(SyncHeld):
    """A lease that is released by leaving its block."""

    def __init__(self, lease: Lease, block: Iterator[Lease]) -> None:
        super().__init__(lease)
        self._block = block

    def release(self) -> None:
        try:
            next(self._block, None)
        except (LeaseLost, NotOwner) as error:
            raise NotGranted(str(error)) from error


class Contender(Defective, KeptLocks):
    defect = staticmethod(defect)
