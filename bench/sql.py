"""Measures PostgreSQL and MariaDB locks against advisory locks, with two commits as the limit."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from importlib.metadata import version
from types import ModuleType

from bench import handover, mariadb_locks, postgresql_locks
from bench.measuring import Timing, cycle_of, machine, timed
from bench.reporting import Report
from bench.sql_locks import RAW, ROW, AsyncMaker
from bench.sql_servers import Mariadb, Postgresql
from bench.sql_waiting import OURS, waiting

LIMIT = "two raw commits"

CYCLES = 20
ROUNDS = 31
"""Number of rounds; many short ones, because a busy moment then spoils only a few."""

TASKS = 100
GAMES = 5
WAITERS = 10
QUIET = 20.0
SETTLED = 6.0
"""Seconds after which all waiters have sent their request and are waiting."""

PEERS = ("psycopg", "PyMySQL", "asyncmy", "sqlalchemy-dlock", "SQLAlchemy", "tooz")

HOW = """\
Both servers run on this machine, over loopback, and wait for the disk at every commit. Every round
runs all that are compared, in turns; a ratio is the median of the ratios within the rounds.
`CPU` is what the client's own process worked. Two raw commits write the holder into a row and
clear it, by the driver, on one connection, on PostgreSQL as prepared statements: the least that a
lock in a table must do. The others are locks of a session: they write nothing, survive neither the
connection nor a pooler, and have no lease, no line and no token. tooz connects anew for each cycle.
"""

READING = """\
## How to read it

- **A commit is most of it.** A cycle of ours is two commits, a hand-over two in a row: the release
  that lets in whoever is next, and that one's answer. So on a busy or slow disk these times are the
  disk's, and the ratios come nearer to 1; on a quick and idle one they are further from it, since
  what the client works counts for more. The column `CPU` depends less on the moment.
- **Locks of a session write nothing**, so they are quicker by as much as a commit takes, also when
  they are handed over: the server wakes a session that it knows. The price stands above.
- **MariaDB cannot notify**: there the first in line polls, and the hand-over takes until it does.
- **The statements while threads wait** are all that the server gets, with those of whoever holds
  the lock: ours renews it once in ten seconds.
- **Many tasks share their commits.** A session lock needs a connection for each.
- **tooz on MariaDB** tries again after growing pauses, so that it is seldom handed over at all:
  the same worker takes it again and again.
"""
"""Causes, without figures that another run of the suite would contradict."""


@dataclass
class Store:
    """One server, and the locks on it that are compared."""

    server: Postgresql | Mariadb
    locks: ModuleType

    @property
    def name(self) -> str:
        return self.server.version.partition(" ")[0]

    @property
    def port(self) -> int:
        return self.server.port


def main() -> Report:
    report = Report("sql", "PostgreSQL and MariaDB, measured")
    with Postgresql() as postgresql, Mariadb() as mariadb:
        mariadb.run("CREATE DATABASE test")
        for server, database in ((postgresql, "postgres"), (mariadb, "test")):
            server.run(RAW, database=database)
            for number in range(TASKS):
                server.run(ROW, number, database=database)
        stores = [Store(postgresql, postgresql_locks), Store(mariadb, mariadb_locks)]
        peers = ", ".join(f"{peer} {version(peer)}" for peer in PEERS)
        report.say(f"{postgresql.version}, {mariadb.version}; {peers}; {machine()}. {_load()}")
        report.say(HOW.rstrip())
        for measure in (uncontended, asyncio_cycle, asyncio_tasks, handed_over, asked_for):
            for store in stores:
                measure(report, store)
        report.say(f"At the end: {_load()} `python -m bench sql` repeats it.")
        report.say(READING.rstrip())
    return report


def _load() -> str:
    """Return how busy the machine is."""
    return f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}."


# -- one lock, no contention -------------------------------------------------------------


def uncontended(report: Report, store: Store) -> None:
    """One thread acquires and releases a free lock; each lock is created once."""
    makers = {OURS: store.locks.CONTENDERS[OURS], LIMIT: store.locks.raw, **store.locks.CONTENDERS}
    runs = {name: cycle_of(make(store.port)) for name, make in makers.items()}
    timings = timed(runs, rounds=ROUNDS, cycles=CYCLES)
    _tell(report, f"{store.name}, uncontended: acquire and release, median", timings)
    shown = {name: one.seconds * 1e6 for name, one in timings.items()}
    report.chart(f"{store.name.lower()}-cycle", f"{store.name}, uncontended cycle", shown, "µs")


def asyncio_cycle(report: Report, store: Store) -> None:
    """One asyncio task acquires and releases a free lock."""
    contenders = store.locks.ASYNC_CONTENDERS
    makers = {OURS: contenders[OURS], LIMIT: store.locks.async_raw, **contenders}
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        runs = {
            name: cycles_in(runner, runner.run(_made(make, store.port, 1, stack)))
            for name, make in makers.items()
        }
        timings = timed(runs, rounds=ROUNDS, cycles=CYCLES)
        runner.run(stack.aclose())
    _tell(report, f"{store.name}, one asyncio task: acquire and release, median", timings)


async def _made(
    make: AsyncMaker, port: int, count: int, stack: AsyncExitStack
) -> list[AbstractAsyncContextManager[object]]:
    return await make(port, count, stack)


def cycles_in(
    runner: asyncio.Runner, locks: list[AbstractAsyncContextManager[object]]
) -> Callable[[int], None]:
    """Return a function that runs this many cycles, divided among one task for each lock."""

    async def run(lock: AbstractAsyncContextManager[object], cycles: int) -> None:
        for _ in range(cycles):
            async with lock:
                pass

    async def run_all(cycles: int) -> None:
        await asyncio.gather(*(run(lock, max(1, cycles // len(locks))) for lock in locks))

    return lambda cycles: runner.run(run_all(cycles))


def _tell(report: Report, title: str, timings: dict[str, Timing]) -> None:
    ours = timings[OURS]
    rows = [
        [
            name,
            f"{one.seconds * 1e6:.0f}",
            f"{one.cpu * 1e6:.0f}",
            "" if one is ours else f"{ours.over(one):.2f} x",
        ]
        for name, one in timings.items()
    ]
    report.table(title, ["", "µs", "CPU µs", "ours is"], rows)


# -- many tasks, distinct names ------------------------------------------------------------


def asyncio_tasks(report: Report, store: Store) -> None:
    """Measure the cycles per second of a loop with TASKS tasks, and of a loop with one task."""
    rows = []
    for name, make in store.locks.ASYNC_CONTENDERS.items():
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            alone = runner.run(_made(make, store.port, 1, stack))
            many = runner.run(_made(make, store.port, TASKS, stack))
            runs = {"one": cycles_in(runner, alone), "many": cycles_in(runner, many)}
            timings = timed(runs, rounds=ROUNDS // 3, cycles=TASKS * 3)
            connections = store.server.connections()
            runner.run(stack.aclose())
        one, together = timings["one"], timings["many"]
        rates = [f"{1 / each.seconds:.0f}" for each in (one, together)]
        cpu = f"{together.cpu * 1e6:.0f}"
        rows.append([name, *rates, f"{one.over(together):.1f} x", cpu, str(connections)])
    report.table(
        f"{store.name}, asyncio tasks on distinct names: cycles per second",
        ["", "one", f"{TASKS} tasks", f"{TASKS} against one", "CPU µs each", "connections"],
        rows,
    )


# -- handover ------------------------------------------------------------------------------


def handed_over(report: Report, store: Store) -> None:
    """Time the handover between two processes, each with its own client; contenders take turns."""
    games: dict[str, list[handover.Result]] = {name: [] for name in store.locks.CONTENDERS}
    for _ in range(GAMES):
        for name, played in games.items():
            played.append(handover.play(store.locks.__name__, name, port=store.port))
    times = {name: handover.times_of(played) for name, played in games.items()}
    ours = statistics.median(times[OURS])
    rows = []
    for name, each in times.items():
        turns = sum(len(game.turns) for game in games[name])
        ratio = "" if name == OURS else f"{ours / statistics.median(each):.2f} x"
        rows.append([name, *handover.cells(each), str(turns), str(len(each)), ratio])
    report.table(
        f"{store.name}, hand-over between two processes, held for {handover.WORK * 1e3:g} ms each",
        ["", "median ms", "p99 ms", "max ms", "turns", "hand-overs", "ours is"],
        rows,
    )


# -- what waiting costs ----------------------------------------------------------------------


def asked_for(report: Report, store: Store) -> None:
    """Count what waiting threads of another process cost: their statements and connections."""
    server = store.server
    server.count_statements()
    rows = []
    for name, make in store.locks.CONTENDERS.items():
        with make(store.port):
            beside = server.connections()
            with waiting(store.locks.__name__, name, port=store.port, threads=WAITERS):
                time.sleep(SETTLED)
                before = server.statements()
                time.sleep(QUIET)
                sent = server.statements() - before
                connections = server.connections() - beside
        rows.append([name, f"{sent / QUIET:.2f}", str(connections)])
    report.table(
        f"{store.name}, one client of which {WAITERS} threads wait",
        ["", "statements per s", "connections"],
        rows,
    )


if __name__ == "__main__":
    main()
