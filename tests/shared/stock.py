"""Goods in a file that many processes take from, behind a lock or without one.

    stock.py FILE PROCESSES TIMES [URL [insist]]

Each reads what is left and writes one less a moment later: whoever comes between is undone. Who
does not wait in line insists: it tries again and again. It ends with 0 if all processes did.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from lengths import length
from puppets import environment

from lockfast import Lease, Locks

Entrance = Callable[[], AbstractContextManager[Any]]

PROCESSES, TIMES = 16, length(30, long=100)

MOMENT = 0.0003
"""Between reading and writing: without a lock others come by then."""

LONG = 600.0
"""What only a hang outlasts: a busy machine turns to the next of them when it likes, and there
are up to 1,600 turns. As a rule it takes some seconds."""


class Stock:
    """So much is there that nothing is left if each has taken as often as it was told to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(struct.pack("=q", PROCESSES * TIMES))

    def left_when_all_have_taken(self, *how: str) -> int:
        """Return what is left; without a URL nobody locks."""
        command = [sys.executable, __file__, str(self._path), str(PROCESSES), str(TIMES), *how]
        subprocess.run(command, env=environment(), check=True, timeout=LONG)
        [left] = struct.unpack("=q", self._path.read_bytes())
        return int(left)


def take(together: Barrier, path: str, times: int, entrance: Callable[[], Entrance]) -> None:
    """Take one after the other, once all processes are there."""
    goods, enter = os.open(path, os.O_RDWR), entrance()
    together.wait(LONG)
    for _ in range(times):
        with enter():
            [left] = struct.unpack("=q", os.pread(goods, 8, 0))
            spin(MOMENT)
            os.pwrite(goods, struct.pack("=q", left - 1), 0)


def spin(seconds: float) -> None:
    """Let time pass without giving up the processor, which one would get back much later."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def locked(url: str, *, insists: bool) -> Entrance:
    """Return how this process gets the lock."""
    lock = Locks(url, request_timeout=30).lock("stock")

    def insist() -> Lease:
        while (lease := lock.try_acquire()) is None:
            time.sleep(random.uniform(0.0, 0.2))  # noqa: S311 - out of step with the others
        return lease

    return insist if insists else partial(lock.acquire, timeout=LONG)


def main(path: str, processes: str, times: str, url: str = "", *insist: str) -> None:
    entrance = partial(locked, url, insists=bool(insist)) if url else lambda: nullcontext
    sys.exit(not all_at_once(int(processes), take, path, int(times), entrance))


def all_at_once(processes: int, work: Callable[..., None], *arguments: Any) -> bool:
    """Return whether so many processes did the work; each is told where all of them meet."""
    context = multiprocessing.get_context("fork")
    together = context.Barrier(processes)
    working = [context.Process(target=work, args=(together, *arguments)) for _ in range(processes)]
    for one in working:
        one.start()
    for one in working:
        one.join()
    return not any(one.exitcode for one in working)


if __name__ == "__main__":
    main(*sys.argv[1:])
