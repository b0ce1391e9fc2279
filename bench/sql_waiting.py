"""Threads of one process that wait for a lock another process holds; run as a module."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

OURS = "lockfast"
LONGEST = 3600.0


@contextmanager
def waiting(module: str, name: str, *, port: int, threads: int) -> Iterator[None]:
    """Make this many threads of one process wait for the lock of that contender."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.sql_waiting", module, name, str(port), str(threads)],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()  # they are about to acquire
        yield
    finally:
        process.kill()
        process.communicate()


def work(module: str, name: str, port: int, threads: int) -> None:
    """Wait until killed."""
    make = importlib.import_module(module).CONTENDERS[name]
    # Ours serves them all with one client; the others need a connection per waiter.
    one = make(port)
    locks = [one if name == OURS else make(port) for _ in range(threads)]
    for lock in locks:
        threading.Thread(target=hold, args=[lock], daemon=True).start()
    print("waiting", flush=True)
    time.sleep(LONGEST)


def hold(lock: AbstractContextManager[object]) -> None:
    with lock:
        time.sleep(LONGEST)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
