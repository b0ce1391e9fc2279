"""Measures ways to protect a row that 1, 8 or 64 processes change.

Each process takes one item after another from the same stock in PostgreSQL, which waits for its
disk at every commit. The ways are the database's own means, a version column, claimed rows, and a
lock.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg

import lockfast
from bench.measuring import machine
from bench.reporting import Report
from bench.sql_servers import Postgresql
from lockfast.sql_rows import Versioned, claim_rows

CONTENDERS = (1, 8, 64)
ROUNDS, SECONDS = 2, 1.0
PATIENCE = 300.0
PLENTY = 1_000_000_000
ROWS = 50_000


def statement(url: str) -> Iterator[None]:
    """One statement that reads and writes in one step."""
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            connection.execute("UPDATE stock SET n = n - 1 WHERE id = 1 AND n > 0")
            yield


def for_update(url: str) -> Iterator[None]:
    """Lock the row, read it, and write it; the transaction stays open while the client decides."""
    with psycopg.connect(url) as connection:
        while True:
            found = connection.execute("SELECT n FROM stock WHERE id = 1 FOR UPDATE").fetchone()
            connection.execute("UPDATE stock SET n = %s WHERE id = 1", [(found or [0])[0] - 1])
            connection.commit()
            yield


def version(url: str) -> Iterator[None]:
    """Read, then write unless the row has changed since; otherwise try again."""
    stock = Versioned("stock", key="id")
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            stock.retry(connection, 1, change=lambda row: {"n": row["n"] - 1}, attempts=1_000_000)
            yield


def unique(url: str) -> Iterator[None]:
    """Insert a unique key; all processes try the same numbers, and one process wins each number."""
    with psycopg.connect(url, autocommit=True) as connection:
        number = 0
        while True:
            number += 1
            connection.execute("INSERT INTO done VALUES (%s) ON CONFLICT DO NOTHING", [number])
            yield


def _claimed(url: str, limit: int) -> Iterator[None]:
    with claim_rows(
        lambda: psycopg.connect(url), "jobs", key="id", where={"done": 0}, limit=limit
    ) as rows:
        for row in rows:
            row.finish(done=1)
            yield


def claimed(url: str) -> Iterator[None]:
    """Claim a row with SKIP LOCKED, and finish it."""
    yield from _claimed(url, 1)


def claimed_by_tens(url: str) -> Iterator[None]:
    """Claim ten rows at once, and finish them one by one."""
    yield from _claimed(url, 10)


def _locked(url: str, sale: str) -> Iterator[None]:
    locks = lockfast.Locks(url, request_timeout=30)
    with locks, psycopg.connect(url, autocommit=True) as connection:
        lock = locks.lock("stock")
        while True:
            with lock as lease:
                found = connection.execute("SELECT n FROM stock WHERE id = 1").fetchone()
                left = (found or [0])[0] - 1
                connection.execute(sale, {"n": left, "token": lease.token})  # type: ignore[arg-type]
            yield


def locked(url: str) -> Iterator[None]:
    """Read and write under a lock."""
    yield from _locked(url, "UPDATE stock SET n = %(n)s WHERE id = 1")


def fenced(url: str) -> Iterator[None]:
    """Read and write under a lock; the row rejects a token smaller than the last one it saw."""
    sale = "UPDATE stock SET n = %(n)s, fence = %(token)s WHERE id = 1 AND fence <= %(token)s"
    yield from _locked(url, sale)


WAYS: dict[str, Callable[[str], Iterator[None]]] = {
    "one UPDATE that decides": statement,
    "unique constraint, won or lost": unique,
    "SELECT … FOR UPDATE": for_update,
    "version column (`Versioned`)": version,
    "`claim_rows`, one at a time": claimed,
    "`claim_rows(limit=10)`": claimed_by_tens,
    "lock": locked,
    "lock + fence": fenced,
}


def contend(way: str, url: str, together: Barrier, results: Any) -> None:  # noqa: ANN401
    """Work for some seconds once all processes are ready; report how long each operation took."""
    working = WAYS[way](url)
    next(working)  # connect, and create the tables of a lock
    together.wait(PATIENCE)
    until, took = time.perf_counter() + SECONDS, []
    began = time.perf_counter()
    while began < until:
        next(working)
        took.append((ended := time.perf_counter()) - began)
        began = ended
    results.put(took)
    together.wait(PATIENCE)  # no disconnect may disturb a process that still works
    working.close()  # type: ignore[attr-defined]


def measured(way: str, contenders: int, server: Postgresql) -> tuple[float, float, float]:
    """Return the operations per second, and the median and p99 of their duration."""
    prepare(server)
    context = multiprocessing.get_context("fork")
    together, results = context.Barrier(contenders), context.Queue()
    processes = [
        context.Process(target=contend, args=(way, server.url(), together, results))
        for _ in range(contenders)
    ]
    for one in processes:
        one.start()
    took = [each for _ in processes for each in results.get(timeout=PATIENCE)]
    for one in processes:
        one.join()
    p99 = statistics.quantiles(took, n=100)[-1] if len(took) > 1 else took[0]
    return len(took) / SECONDS, statistics.median(took), p99


def prepare(server: Postgresql) -> None:
    server.run("DROP TABLE IF EXISTS stock, done, jobs")
    server.run("CREATE TABLE stock (id int PRIMARY KEY, n bigint, version bigint, fence bigint)")
    server.run("INSERT INTO stock VALUES (1, %s, 0, 0)", PLENTY)
    server.run("CREATE TABLE done (id bigint PRIMARY KEY)")
    columns = "id int PRIMARY KEY, done int, claimed_until float8, claim_token bigint"
    server.run(f"CREATE TABLE jobs ({columns})")
    server.run("INSERT INTO jobs SELECT n, 0 FROM generate_series(1, %s) n", ROWS)
    server.run("CREATE INDEX ON jobs (done, id)")
    server.run("ANALYZE jobs")


def main() -> Report:
    """Measure all ways, in turns."""
    report = Report("rows", "Ways to keep a row right, measured")
    server = Postgresql()
    server.settings["max_connections"] = "600"  # each lock client opens up to five
    with server:
        busy = os.getloadavg()[0]
        report.say(
            f"{machine()}, {os.cpu_count()} processors, {server.version}; the load of the machine "
            f"was {busy:.1f} before. Processes that take from one stock in PostgreSQL, for "
            f"{SECONDS:g} s, one after the other and without a pause; every commit waits for the "
            f"disk. Of {ROUNDS} rounds, in turns, the best: other work on the machine disturbs "
            "each of them. `python -m bench rows` repeats it."
        )
        for number in CONTENDERS:
            found: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
            for _ in range(ROUNDS):
                for way in WAYS:  # in turns: a busy moment of the machine affects all of them
                    found[way].append(measured(way, number, server))
            rows = []
            for way in WAYS:
                rate, median, p99 = max(found[way])
                rows.append([way, f"{rate:,.0f}", f"{median * 1e3:.2f}", f"{p99 * 1e3:.1f}"])
            title = f"{number} contender{'s' if number > 1 else ''}"
            report.table(title, ["", "done per second", "median ms", "p99 ms"], rows)
    return report
