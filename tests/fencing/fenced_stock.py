"""Goods in a row that many processes take from, with a lock and a fence or with neither.

    fenced_stock.py KIND WHERE PROCESSES TIMES [STORE]

KIND and WHERE say how to reach the row; without STORE, nothing is locked or fenced. The exit code
is 0 if every process ended with 0.
"""

from __future__ import annotations

import sqlite3
import sys
from multiprocessing.synchronize import Barrier
from typing import Any

import psycopg
import pymysql
from stock import LONG, MOMENT, all_at_once, spin

from lockfast import Locks
from lockfast.fencing import fenced_update, seal

KEY = {"id": 1}


def connected(kind: str, where: str) -> Any:
    """Return a connection whose transactions the caller commits."""
    if kind == "sqlite":
        return sqlite3.connect(where, timeout=LONG)
    if kind == "postgresql":
        return psycopg.connect(where)
    return pymysql.connect(host="127.0.0.1", port=int(where), user="root", database="callers")


class Goods:
    """The row, as one process sees it."""

    def __init__(self, kind: str, where: str) -> None:
        self.connection = connected(kind, where)

    def left(self) -> int:
        cursor = self.connection.cursor()
        cursor.execute("SELECT left_over FROM goods WHERE id = 1")
        [left] = cursor.fetchone()
        return int(left)

    def set_plainly(self, left: int) -> None:
        self.connection.cursor().execute(f"UPDATE goods SET left_over = {left} WHERE id = 1")

    def take_plainly(self) -> None:
        left = self.left()
        self.connection.commit()  # otherwise the database could detect the conflict
        spin(MOMENT)
        self.set_plainly(left - 1)
        self.connection.commit()

    def take(self, lease: Any) -> None:
        seal(self.connection, "goods", KEY, lease)
        left = self.left()
        spin(MOMENT)
        fenced_update(self.connection, "goods", KEY, lease, {"left_over": left - 1})
        self.connection.commit()


def work(together: Barrier, kind: str, where: str, times: int, store: str) -> None:
    """Take one piece after another, once all processes are ready."""
    goods = Goods(kind, where)
    lock = Locks(store, request_timeout=LONG).lock("goods") if store else None
    together.wait(LONG)
    for _ in range(times):
        if lock is None:
            goods.take_plainly()
            continue
        with lock.acquire(timeout=LONG) as lease:
            goods.take(lease)


def main(kind: str, where: str, processes: str, times: str, store: str = "") -> None:
    sys.exit(not all_at_once(int(processes), work, kind, where, int(times), store))


if __name__ == "__main__":
    main(*sys.argv[1:])
