"""Measures how long a handover takes among many waiters, and what waiting costs.

A run is a separate process with one event loop, `python -m bench.waiting URL WAITERS CLIENTS
NAMES`, and prints its results as JSON. The waiters all wait for one name, or each for its own name.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass

import lockfast
from bench import dead_waiters, redis_server
from bench.measuring import machine
from bench.reporting import Report

WAITERS = (1, 100, 1000, 5000)
CLIENTS = 50
TURNS = 300
HOLD = 0.002
QUIET = 6.0
"""How long all clients only wait before the handovers, in seconds."""

BESIDE = 100
BESIDE_TTL = 3.0
"""Number and ttl of the leases that the clients hold meanwhile, on names that are not contended."""

LONGEST = 100.0
"""Time limit of a run, in seconds: a run that exceeds it shows that the store is unsuitable."""

TICK = 0.005
AT_ONCE = 50
"""How many tasks start or end in one turn of the loop; more tasks would stall the loop."""


@contextmanager
def redis_store() -> Iterator[str]:
    """Yield the URL of a new Redis server."""
    with redis_server.running() as port:
        yield f"redis://127.0.0.1:{port}"


@contextmanager
def sqlite_store() -> Iterator[str]:
    """Yield the URL of a new SQLite file."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite://{folder}/locks.db"


STORES: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "Redis": redis_store,
    "SQLite": sqlite_store,
}
"""Maps each store to a function that opens it and yields its URL."""


@dataclass(frozen=True)
class Facts:
    """The results of one run: times in seconds, `cpu` as a fraction of a core, `lost` a count."""

    median: float
    p99: float
    stall: float
    busy: float
    cpu: float
    lost: int

    def cells(self) -> list[str]:
        """Return the figures as table cells."""
        times = (self.median, self.p99, self.stall, self.busy)
        return [*(f"{one * 1e3:.1f}" for one in times), f"{self.cpu * 100:.1f}", str(self.lost)]


def main() -> Report:
    report = Report("waiting", "Many waiters, measured")
    report.say(
        f"{machine()}. The clients are in one process, on one event loop; hand-over is from one's "
        f"giving back to the next one's having it, {TURNS} times. The longest stall of the loop is "
        f"over the hand-overs and {QUIET:g} s of nothing but waiting before them. `busy` is the "
        "most that the loop itself has worked at a stretch, to which the other processes of the "
        "machine do not add; passes of Python's garbage collector, about 0.1 s for 5,000 tasks, "
        "are kept out of it by `gc.freeze()`. The core is what the clients take in those seconds. "
        f"Beside it they hold {BESIDE} leases of {BESIDE_TTL:g} s. `python -m bench waiting` "
        "repeats it."
    )
    for store, opened in STORES.items():
        many_waiters(report, store, opened)
        with opened() as url:
            dead_waiters.tell(report, store, url)
    return report


def many_waiters(
    report: Report, store: str, opened: Callable[[], AbstractContextManager[str]]
) -> None:
    """Measure 1 to 5,000 waiters, in one client or many, all on one name or each on its own."""
    rows = []
    for waiters in WAITERS:
        for clients in sorted({1, min(waiters, CLIENTS)}):
            for names in sorted({1, waiters}):
                row = [f"{waiters:,}", str(clients), f"{names:,}"]
                try:
                    with opened() as url:
                        facts = run(url, waiters=waiters, clients=clients, names=names)
                except subprocess.TimeoutExpired:
                    rows.append([*row, f"not done in {LONGEST:g} s", *[""] * 5])
                else:
                    rows.append([*row, *facts.cells()])
    head = [
        "waiters",
        "clients",
        "names",
        "median ms",
        "p99 ms",
        "stall ms",
        "busy ms",
        "core %",
        "lost",
    ]
    report.table(store, head, rows)


def run(url: str, *, waiters: int, clients: int, names: int) -> Facts:
    """Run the workload in a separate process."""
    words = [url, str(waiters), str(clients), str(names)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.waiting", *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=LONGEST,
    )
    return Facts(**json.loads(done.stdout))


# -- the workload --------------------------------------------------------------------------


class Game:
    """The clients and names of one run; the client `host` holds all names at first."""

    def __init__(self, url: str, *, clients: int, names: int) -> None:
        self.lost = 0
        self.gaps: list[float] = []
        self.enough = asyncio.Event()
        # The request timeout is long, because overload by 5,000 simultaneous arrivals is not
        # tested.
        self.host, *self.clients = (
            lockfast.AsyncLocks(url, ttl=60, on_event=self._count_lost, request_timeout=20)
            for _ in range(clients + 1)
        )
        self.names = [f"door-{number}" for number in range(names)]
        self.released_at: dict[str, float] = {}

    def _count_lost(self, event: lockfast.Event) -> None:
        self.lost += isinstance(event, lockfast.Lost)

    def taken(self, name: str) -> None:
        """Record how long the handover of this name took."""
        self.gaps.append(time.perf_counter() - self.released_at[name])
        if len(self.gaps) >= TURNS:
            self.enough.set()

    async def wait(self, number: int) -> None:
        """Acquire a name, hold it for a moment, and acquire it again."""
        name = self.names[number % len(self.names)]
        lock = self.clients[number % len(self.clients)].lock(name)
        while True:
            async with lock:
                self.taken(name)
                await asyncio.sleep(HOLD)
                self.released_at[name] = time.perf_counter()

    async def give_away(self, leases: dict[str, lockfast.AsyncLease]) -> None:
        """Release one name after another, and wait in line for it again."""
        while True:
            for name in self.names:
                self.released_at[name] = time.perf_counter()
                await leases[name].release()
                leases[name] = await self.host.lock(name).acquire()
                self.taken(name)
                await asyncio.sleep(HOLD)

    async def all_wait(self, waiters: int) -> None:
        """Return once this many waiters are in line."""
        counted = -1
        while counted < waiters:
            await asyncio.sleep(0.2)
            counted = 0
            for name in self.names:
                counted += len((await self.host.inspect(name)).line)

    async def close(self) -> None:
        """Close all clients."""
        for one in (self.host, *self.clients):
            await one.aclose()


async def play(url: str, *, waiters: int, clients: int, names: int) -> Facts:
    """Make this many tasks wait, then hand the locks over among them, and return the results."""
    game = Game(url, clients=clients, names=names)
    leases = {name: await game.host.lock(name).acquire() for name in game.names}
    beside = [
        await game.clients[n % clients].lock(f"beside-{n}", ttl=BESIDE_TTL).acquire()
        for n in range(BESIDE)
    ]
    tasks = []
    for number in range(waiters):
        tasks.append(asyncio.create_task(game.wait(number)))
        if number % AT_ONCE == 0:
            await asyncio.sleep(0.001)
    await game.all_wait(waiters)
    # Any 5,000 tasks make a full garbage collection take 0.1 s, so exempt all present objects.
    gc.collect()
    gc.freeze()
    ticks: list[tuple[float, float]] = []
    ticker = asyncio.create_task(tick(ticks))
    started, used = time.perf_counter(), time.process_time()
    await asyncio.sleep(QUIET)
    cpu = (time.process_time() - used) / (time.perf_counter() - started)
    tasks.append(asyncio.create_task(game.give_away(leases)))
    await game.enough.wait()
    ticker.cancel()
    lost = game.lost + sum(not one.is_trusted for one in beside)
    for number, task in enumerate(tasks):
        task.cancel()
        if number % AT_ONCE == 0:
            await asyncio.sleep(0.001)
    await asyncio.wait(tasks)
    await game.close()
    gaps = game.gaps[:TURNS]
    p99 = statistics.quantiles(gaps, n=100)[98]
    stall, busy = (max(each) for each in zip(*ticks, strict=True))
    return Facts(statistics.median(gaps), p99, stall, busy, cpu, lost)


async def tick(ticks: list[tuple[float, float]]) -> None:
    """Record how late the loop wakes up, and how much processor time its thread used meanwhile."""
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            began, used = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK)
            ticks.append((time.perf_counter() - began - TICK, time.thread_time() - used))


if __name__ == "__main__":
    logging.getLogger("lockfast").addHandler(logging.NullHandler())  # closing loses held leases
    location, *counts = sys.argv[1:]
    many, of, on = map(int, counts)
    print(json.dumps(asdict(asyncio.run(play(location, waiters=many, clients=of, names=on)))))
