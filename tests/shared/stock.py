"""Goods in a file that many processes take from, with a lock or without one.

    stock.py FILE PROCESSES TIMES [URL [insist]]

Each process reads what is left and writes one less a moment later: a write in between is lost. With
`insist` a process does not wait in line, but tries again and again. The exit code is 0 if every
process ended with 0.
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
"""Seconds between reading and writing, enough for other processes to interfere without a lock."""

LONG = 600.0
"""Timeout that only a hang exceeds, in seconds.

All turns, up to 1,600, usually take a few seconds, but a busy machine switches processes when it
likes.
"""


class Stock:
    """A stock that is exactly used up when every process has taken its share."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.write_bytes(struct.pack("=q", PROCESSES * TIMES))

    def left_when_all_have_taken(self, *how: str) -> int:
        """Return what is left; without a URL no lock is used."""
        command = [sys.executable, __file__, str(self._path), str(PROCESSES), str(TIMES), *how]
        subprocess.run(command, env=environment(), check=True, timeout=LONG)
        [left] = struct.unpack("=q", self._path.read_bytes())
        return int(left)


def take(together: Barrier, path: str, times: int, entrance: Callable[[], Entrance]) -> None:
    """Take one piece after another, once all processes are ready."""
    goods, enter = os.open(path, os.O_RDWR), entrance()
    together.wait(LONG)
    for _ in range(times):
        with enter():
            [left] = struct.unpack("=q", os.pread(goods, 8, 0))
            spin(MOMENT)
            os.pwrite(goods, struct.pack("=q", left - 1), 0)


def spin(seconds: float) -> None:
    """Let time pass without giving up the processor, which would come back much later."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def locked(url: str, *, insists: bool) -> Entrance:
    """Return the function with which this process acquires the lock."""
    lock = Locks(url, request_timeout=30).lock("stock")

    def insist() -> Lease:
        while (lease := lock.try_acquire()) is None:
            time.sleep(random.uniform(0.0, 0.2))  # noqa: S311 - out of step with other processes
        return lease

    return insist if insists else partial(lock.acquire, timeout=LONG)


def main(path: str, processes: str, times: str, url: str = "", *insist: str) -> None:
    entrance = partial(locked, url, insists=bool(insist)) if url else lambda: nullcontext
    sys.exit(not all_at_once(int(processes), take, path, int(times), entrance))


def all_at_once(processes: int, work: Callable[..., None], *arguments: Any) -> bool:
    """Run the work in this many processes, which start together; return whether all succeeded."""
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
