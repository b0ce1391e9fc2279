"""Measures locks in SQLite, the default, against two raw transactions and against filelock."""

from __future__ import annotations

import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import filelock

import lockfast
from bench.measuring import cycle_of, machine, report_ratios, side_by_side
from bench.reporting import Report

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "lockfast sqlite"


def main() -> Report:
    report = Report("embedded", "The embedded default, measured")
    report.say(
        f"SQLite {sqlite3.sqlite_version}, filelock {version('filelock')}, {machine()}. "
        "All in one run, in turns; `make bench` repeats it."
    )
    with tempfile.TemporaryDirectory(prefix="lockfast-bench-") as name:
        directory = Path(name)
        uncontended(report, directory)
        hand_over(report, directory)
        waiting(report, directory)
    return report


def uncontended(report: Report, directory: Path) -> None:
    """One process acquires and releases a free lock."""
    locks = lockfast.Locks(f"sqlite://{directory}/locks.db")
    seconds = side_by_side(
        {
            OURS: cycle_of(locks.lock("door")),
            "two raw transactions": raw_transactions(directory / "raw.db"),
            f"filelock {version('filelock')}": cycle_of(
                filelock.FileLock(str(directory / "door.lock"))
            ),
        },
        rounds=15,
        cycles=1000,
    )
    locks.close()
    report_ratios(report, "Uncontended: acquire and release, median", seconds, ours=OURS)
    report.chart("cycle", "Uncontended cycle", {k: v * 1e6 for k, v in seconds.items()}, "µs")


def raw_transactions(path: Path) -> Callable[[int], None]:
    """Return a cycle that writes a holder and clears it, the minimum for a lock in SQLite."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(
        "CREATE TABLE locks (name TEXT PRIMARY KEY, claim TEXT, until REAL, token INTEGER)"
        " WITHOUT ROWID"
    )

    def run(cycles: int) -> None:
        for _ in range(cycles):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(
                "INSERT INTO locks VALUES ('door', 'claim', 1.0, 1) ON CONFLICT (name)"
                " DO UPDATE SET claim = excluded.claim, token = token + 1"
            )
            connection.execute("COMMIT")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE locks SET claim = NULL WHERE name = 'door'")
            connection.execute("COMMIT")

    return run


PLAYER = """
import json, sys, time
import lockfast
locks = lockfast.Locks(sys.argv[1])
lock = locks.lock("ball")
waits = []
released = 0.0
for _ in range(int(sys.argv[2])):
    with lock:
        taken = time.clock_gettime(time.CLOCK_BOOTTIME)
        waits.append(taken)
        # Give the other one time to stand in line, so that this is a hand-over.
        while not locks.inspect("ball").line and len(waits) < int(sys.argv[2]):
            time.sleep(0.0005)
        released = time.clock_gettime(time.CLOCK_BOOTTIME)
    waits.append(released)
print(json.dumps(waits))
"""


def hand_over(report: Report, directory: Path) -> None:
    """Measure the handover between two processes: from one release to the other process's grant."""
    url, turns = f"sqlite://{directory}/ball.db", 300
    players = [
        subprocess.Popen(
            [sys.executable, "-c", PLAYER, url, str(turns)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    times = [json.loads(player.communicate(timeout=120)[0]) for player in players]
    taken = sorted((moment, who) for who in (0, 1) for moment in times[who][0::2])
    released_at = [dict(zip(times[who][0::2], times[who][1::2], strict=True)) for who in (0, 1)]
    gaps = [
        moment - released_at[before_who][before]
        for (before, before_who), (moment, who) in pairwise(taken)
        if who != before_who
    ]
    report.table(
        f"Hand-over between two processes, {len(gaps)} times",
        ["", "median ms", "99th percentile ms"],
        [[OURS, f"{statistics.median(gaps) * 1e3:.2f}", percentile(gaps)]],
    )


def percentile(values: list[float]) -> str:
    return f"{statistics.quantiles(values, n=100)[98] * 1e3:.2f}"


def waiting(report: Report, directory: Path) -> None:
    """Count the statements that a waiter runs on the file while it waits."""
    url = f"sqlite://{directory}/wait.db"
    with lockfast.Locks(url) as holder, lockfast.Locks(url) as waiter:
        lease = holder.lock("door").acquire()
        statements: list[str] = []
        waiter.inspect("door")
        sqlite = waiter._client.backend._database.connection._sqlite  # type: ignore[attr-defined]
        sqlite.set_trace_callback(statements.append)
        started = time.perf_counter()
        try:
            waiter.lock("door").acquire(timeout=10)
        except lockfast.AcquireTimeout:
            took = time.perf_counter() - started
        lease.release()
    report.say(f"A waiter runs {len(statements)} statements in {took:.1f} s of waiting.")


if __name__ == "__main__":
    main()
