"""Threads that wait for a lock of another process; run as a module, this is their process."""

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
    """Make this many threads of one process wait for the named contender's lock in the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.sql_waiting", module, name, str(port), str(threads)],
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()  # the threads are about to acquire
        yield
    finally:
        process.kill()
        process.communicate()


def work(module: str, name: str, port: int, threads: int) -> None:
    """Start the waiting threads, and keep the process alive until it is killed."""
    make = importlib.import_module(module).CONTENDERS[name]
    # One client of ours serves all waiters; the other libraries need a connection per waiter.
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
