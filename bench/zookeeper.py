"""Measures our ZooKeeper locks against kazoo's recipes, with the same driver and server."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version

from kazoo.client import KazooClient

import lockfast
from bench import handover
from bench.measuring import cycle_of, machine, side_by_side
from bench.reporting import Report
from bench.zookeeper_server import requests_received, running, server_version

OURS = "lockfast"
THEIRS = "kazoo"
CYCLES = 100
ROUNDS = 5


def _ours(port: int) -> lockfast.Locks:
    return lockfast.Locks(f"zookeeper://127.0.0.1:{port}")


def _theirs(port: int) -> KazooClient:
    client = KazooClient(f"127.0.0.1:{port}", timeout=30)
    client.start()
    return client


CONTENDERS: dict[str, Callable[[int], AbstractContextManager[object]]] = {
    "lockfast Lock": lambda port: _ours(port).lock("ball"),
    "kazoo Lock": lambda port: _theirs(port).Lock("/theirs/ball"),
    "lockfast write lock": lambda port: _ours(port).rwlock("page").write(),
    "kazoo WriteLock": lambda port: _theirs(port).WriteLock("/theirs/page"),
}
"""The locks that are handed over; each lock of ours is followed by its competitor."""


def main() -> Report:
    report = Report("zookeeper", "ZooKeeper, measured")
    with running() as port:
        report.say(
            f"ZooKeeper server {server_version(port)}, one, which does not wait for its disk "
            f"(`forceSync=no`); kazoo {version('kazoo')}; {machine()}. "
            "All in one run, in turns; `make bench` repeats it."
        )
        uncontended(report, port)
        handed_over(report, port)
    return report


# -- one lock, no contention -------------------------------------------------------------


def uncontended(report: Report, port: int) -> None:
    """One thread acquires and releases free locks; each lock is created once."""
    client = KazooClient(f"127.0.0.1:{port}", timeout=30)
    client.start()
    locks = lockfast.Locks(f"zookeeper://127.0.0.1:{port}")
    rivals = {
        "Lock": (locks.lock("ours"), client.Lock("/theirs/lock")),
        "write lock": (locks.rwlock("rw").write(), client.WriteLock("/theirs/rw")),
        "read lock": (locks.rwlock("rw").read(), client.ReadLock("/theirs/rw")),
        "Semaphore of 3": (
            locks.semaphore("permits", capacity=3),
            client.Semaphore("/theirs/permits", max_leases=3),
        ),
    }
    runs = {
        (what, whose): cycle_of(lock)
        for what, pair in rivals.items()
        for whose, lock in zip((OURS, THEIRS), pair, strict=True)
    }
    named = {f"{what}: {whose}": run for (what, whose), run in runs.items()}
    seconds = side_by_side(named, rounds=9, cycles=CYCLES)
    requests = {each: requests_of(run, port) for each, run in runs.items()}
    locks.close()
    client.stop()
    client.close()
    rows = []
    for what in rivals:
        ours, theirs = seconds[f"{what}: {OURS}"], seconds[f"{what}: {THEIRS}"]
        rows.append(
            [
                what,
                f"{ours * 1e6:.0f}",
                f"{theirs * 1e6:.0f}",
                f"{ours / theirs:.2f} x",
                f"{requests[what, OURS]:.1f}",
                f"{requests[what, THEIRS]:.1f}",
            ]
        )
    report.table(
        "Uncontended: acquire and release, median; requests as the server counts them",
        ["", "ours µs", "kazoo µs", "ours is", "our requests", "kazoo's requests"],
        rows,
    )
    report.chart(
        "cycle", "Uncontended cycle", {name: one * 1e6 for name, one in seconds.items()}, "µs"
    )


def requests_of(run: Callable[[int], None], port: int) -> float:
    """Return how many requests the server receives for one cycle."""
    before = requests_received(port)
    run(CYCLES)
    return (requests_received(port) - before) / CYCLES


# -- handover ------------------------------------------------------------------------------


def handed_over(report: Report, port: int) -> None:
    """Time the handover between two processes, each with its own client; contenders take turns."""
    results: dict[str, list[handover.Result]] = {name: [] for name in CONTENDERS}
    requests = dict.fromkeys(CONTENDERS, 0)
    for _ in range(ROUNDS):
        for name, games in results.items():
            before = requests_received(port)
            games.append(handover.play("bench.zookeeper", name, port=port))
            requests[name] += requests_received(port) - before
    rows = []
    medians = []
    for name, games in results.items():
        times = handover.times_of(games)
        turns = sum(len(game.turns) for game in games)
        medians.append(statistics.median(times))
        rows.append([name, *handover.cells(times), str(turns), f"{requests[name] / turns:.1f}"])
    for ours, theirs in ((0, 1), (2, 3)):
        rows[ours].append(f"{medians[ours] / medians[theirs]:.2f} x")
        rows[theirs].append("")
    report.table(
        f"Hand-over between two processes, held for {handover.WORK * 1e3:g} ms each",
        ["", "median ms", "p99 ms", "max ms", "turns", "requests per turn", "ours is"],
        rows,
    )


if __name__ == "__main__":
    main()
