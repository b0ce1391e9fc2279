"""Measures how long a live waiter waits behind waiting processes that were killed all at once."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import lockfast

if TYPE_CHECKING:
    from bench.reporting import Report

DEAD = (1, 8, 32)

WAITER = """
import sys
import lockfast
lockfast.Locks(sys.argv[1]).lock(sys.argv[2]).acquire()
"""


def tell(report: Report, store: str, url: str) -> None:
    """Add the table of this store to the report."""
    rows = [[str(count), f"{handed_over_past(url, count):.2f}"] for count in DEAD]
    report.table(f"{store}: killed while they waited in front", ["processes", "s"], rows)


def handed_over_past(url: str, count: int) -> float:
    """Return the seconds from the release to the grant of a waiter behind `count` killed ones."""
    name = f"dead-{count}"
    with lockfast.Locks(url) as host, lockfast.Locks(url) as living:
        lease = host.lock(name).acquire()
        waiters = [
            subprocess.Popen([sys.executable, "-c", WAITER, url, name]) for _ in range(count)
        ]
        _until_waiting(host, name, count)
        taken: list[float] = []

        def wait() -> None:
            with living.lock(name):
                taken.append(time.perf_counter())

        thread = threading.Thread(target=wait)
        thread.start()
        _until_waiting(host, name, count + 1)
        for one in waiters:
            one.kill()
        for one in waiters:
            one.wait()
        released = time.perf_counter()
        lease.release()
        thread.join()
    return taken[0] - released


def _until_waiting(locks: lockfast.Locks, name: str, count: int) -> None:
    while len(locks.inspect(name).line) < count:
        time.sleep(0.02)
