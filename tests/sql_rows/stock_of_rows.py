"""Sixteen processes that each take a hundred from one stock in a database, in a given way.

    stock_of_rows.py WAY PROCESSES TIMES DATABASE ADDRESS TABLE

When all are done, it prints what each process has taken, one line per process. The exit code is 0
if every process ended with 0.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.synchronize import Barrier
from typing import Any

from databases import connected
from stock import LONG

from lockfast.sql_rows import Versioned, claim_rows


def versioned(name: str, address: str, table: str, times: int) -> Iterator[int]:
    """Read a row, and write it only if it has not changed since; otherwise try again."""
    connection = connected(name, address)
    rows = Versioned(table, key="id")
    for _ in range(times):
        row = rows.retry(connection, 1, change=lambda row: {"n": row["n"] - 1}, attempts=1_000_000)
        yield row["n"]
    connection.close()


def unguarded(name: str, address: str, table: str, times: int) -> Iterator[int]:
    """Read and write a row without any check, to show what goes wrong."""
    connection = connected(name, address)
    cursor = connection.cursor()
    for _ in range(times):
        cursor.execute(f"SELECT n FROM {table} WHERE id = 1")
        [left] = cursor.fetchone()
        connection.commit()
        time.sleep(random.uniform(0.0, 0.002))  # noqa: S311 - time to think
        cursor.execute(f"UPDATE {table} SET n = {left - 1} WHERE id = 1")
        connection.commit()
        yield left - 1
    connection.close()


def claimed(name: str, address: str, table: str, _times: int) -> Iterator[int]:
    """Take whole rows, each for one process alone, as long as there are any.

    Expiry is not under test: with sixteen writers to one file on a busy machine, a writer may have
    to wait for longer than the usual half minute.
    """
    with claim_rows(
        lambda: connected(name, address), table, key="id", where={"taken": 0}, limit=10, ttl=LONG
    ) as rows:
        for row in rows:
            row.finish(taken=1)
            yield row["id"]


def unclaimed(name: str, address: str, table: str, times: int) -> Iterator[int]:
    """Take the first row that looks free, without a claim, to show what goes wrong."""
    connection = connected(name, address)
    cursor = connection.cursor()
    for _ in range(times):
        cursor.execute(f"SELECT id FROM {table} WHERE taken = 0 ORDER BY id LIMIT 1")
        found = cursor.fetchone()
        connection.commit()
        if found is None:
            break
        time.sleep(random.uniform(0.0, 0.002))  # noqa: S311 - time to think
        cursor.execute(f"UPDATE {table} SET taken = 1 WHERE id = {found[0]}")
        connection.commit()
        yield found[0]
    connection.close()


WAYS: dict[str, Callable[..., Iterator[int]]] = {
    "versioned": versioned,
    "unguarded": unguarded,
    "claimed": claimed,
    "unclaimed": unclaimed,
}


def take(way: str, arguments: Any, together: Barrier, told: Any) -> None:
    """Take pieces, once all processes are ready, and report them; report None after a failure."""
    together.wait(LONG)
    had: list[int] | None = None
    try:
        had = list(WAYS[way](*arguments))
    finally:
        told.put(had)


def main(way: str, processes: str, times: str, *where: str) -> None:
    context = multiprocessing.get_context("fork")
    together, told = context.Barrier(int(processes)), context.Queue()
    arguments = (*where, int(times))
    taking = [
        context.Process(target=take, args=(way, arguments, together, told))
        for _ in range(int(processes))
    ]
    for one in taking:
        one.start()
    had = [told.get(timeout=LONG) for _ in taking]
    for one in taking:
        one.join()
    for one in filter(None, had):
        sys.stdout.write(" ".join(map(str, one)) + "\n")
    sys.exit(any(one.exitcode for one in taking))


if __name__ == "__main__":
    main(*sys.argv[1:])
