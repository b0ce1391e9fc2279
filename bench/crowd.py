"""Measures a crowd on SQL servers: thousands of tasks of one client that acquire one name at once.

A run is a separate process with one event loop, `python -m bench.crowd URL TASKS`, and prints its
results as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import lockfast
from bench.measuring import load, machine
from bench.reporting import Report
from bench.sql_servers import Mariadb, Mysql, Postgresql

TASKS = (500, 5_000)
TIMEOUT = 120.0
"""Timeout of each acquire, in seconds."""

COUNT_EVERY = 0.5

READING = """\
## How to read it

- **The tasks join the line in batches**: each transaction takes every task that arrived during
  the previous one, at most a hundred. So a crowd needs no more connections than a single task and
  its inbox.
- **A hand-over is two commits**: the release that lets in the next, and that one's answer. On a
  slow disk these times are the disk's.
- **Within one client a release wakes the next task itself**, so a hand-over waits for no message:
  neither for a notification nor, on MySQL and MariaDB, for the next look at the line.
"""


@dataclass(frozen=True)
class Facts:
    """The results of one run; times are in seconds."""

    granted: int
    failed: int
    all_wait: float
    """From the start until the last task had its reply: a grant, or its place in line."""
    passed: float
    median: float
    p99: float

    def cells(self) -> list[str]:
        """Return the figures as table cells."""
        return [
            f"{self.granted:,}",
            f"{self.failed:,}",
            f"{self.all_wait:.1f}",
            f"{self.passed:.1f}",
            f"{self.median * 1e3:.1f}",
            f"{self.p99 * 1e3:.1f}",
        ]


def main() -> Report:
    report = Report("crowd", "Thousands of tasks on one name, measured")
    report.say(
        f"{machine()}, {load()}. All tasks belong to one client on one event loop and ask for one "
        f"name at the same time, each with `timeout={TIMEOUT:g}`; each holder releases at once. "
        "The servers run on this machine, and wait for the disk at every commit. `all wait` is "
        "when the last task had its place in line; a hand-over lasts from one task's release to "
        "the next task's grant. Connections, including the inbox's, are counted every "
        f"{COUNT_EVERY:g} s. "
        "`python -m bench crowd` repeats it."
    )
    head = ["tasks", "granted", "failed", "all wait s", "total s", "median ms", "p99 ms"]
    for kind in (Postgresql, Mariadb, Mysql):
        with kind() as server:
            rows = [[f"{tasks:,}", *_run_at(server, tasks)] for tasks in TASKS]
            report.table(server.version, [*head, "connections"], rows)
    report.say(f"At the end: {load()}.")
    report.say(READING)
    return report


def _run_at(server: Postgresql | Mariadb | Mysql, tasks: int) -> list[str]:
    if not isinstance(server, Postgresql):
        server.run("CREATE DATABASE IF NOT EXISTS test")
    with _counted(server) as connections:
        facts = run(server.url(), tasks)
    return [*facts.cells(), str(max(connections))]


@contextmanager
def _counted(server: Postgresql | Mariadb | Mysql) -> Iterator[list[int]]:
    """Count the connections of the server's clients repeatedly."""
    counts, is_over = [0], threading.Event()

    def count() -> None:
        while not is_over.wait(COUNT_EVERY):
            counts.append(server.connections())

    thread = threading.Thread(target=count)
    thread.start()
    try:
        yield counts
    finally:
        is_over.set()
        thread.join()


def run(url: str, tasks: int) -> Facts:
    """Run the workload in a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.crowd", url, str(tasks)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Facts(**json.loads(done.stdout))


# -- the workload --------------------------------------------------------------------------


class Crowd:
    """The tasks and their results."""

    def __init__(self, locks: lockfast.AsyncLocks) -> None:
        self._lock = locks.lock("the one name", timeout=TIMEOUT)
        self._given_back: float | None = None
        self.gaps: list[float] = []
        self.granted = 0
        self.errors: list[str] = []

    async def pass_once(self) -> None:
        """Acquire the lock once, and release it immediately."""
        try:
            async with self._lock:
                now = time.perf_counter()
                if self._given_back is not None:
                    self.gaps.append(now - self._given_back)
                self.granted += 1
                self._given_back = time.perf_counter()
        except lockfast.LockError as error:
            self.errors.append(repr(error))


async def play(url: str, tasks: int) -> Facts:
    """Make this many tasks acquire at once."""
    answered: set[str] = set()
    last_answer = began_at = time.time()
    started = time.perf_counter()

    def record(event: lockfast.Event) -> None:
        nonlocal last_answer
        if isinstance(event, lockfast.Waiting | lockfast.Acquired) and event.claim not in answered:
            answered.add(event.claim)
            last_answer = max(last_answer, event.at)

    async with lockfast.AsyncLocks(url, on_event=record) as locks:
        crowd = Crowd(locks)
        await asyncio.gather(*(crowd.pass_once() for _ in range(tasks)))
        passed = time.perf_counter() - started
    if crowd.errors:
        print(*sorted(set(crowd.errors))[:5], sep="\n", file=sys.stderr)
    return Facts(
        granted=crowd.granted,
        failed=len(crowd.errors),
        all_wait=last_answer - began_at,
        passed=passed,
        median=statistics.median(crowd.gaps),
        p99=statistics.quantiles(crowd.gaps, n=100)[98],
    )


if __name__ == "__main__":
    logging.getLogger("lockfast").addHandler(logging.NullHandler())
    location, count = sys.argv[1:]
    print(json.dumps(asdict(asyncio.run(play(location, int(count))))))
