"""Demo: the lock inside a transaction. As a program, this file is one of the workers."""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from lockfast.cli.demo.command import Play
from lockfast.cli.demo.crew import played, send_message, wait_for_director, worker_client
from lockfast.cli.demo.oversell import spans_of
from lockfast.sql_rows import hold_until_commit

if TYPE_CHECKING:
    from lockfast import Lock

NAME = "transaction"
TITLE = "The lock inside the transaction"
TEXT = (
    "Four workers sell a stock of 20 in an SQLite file, each behind a lock. But the framework "
    "commits when the request is over, after the lock was released: the next one reads the old "
    "stock. Without Lockfast's hold_until_commit() the lock does not help."
)
CODE = """\
with locks.lock("stock") as lease:
    hold_until_commit(lease, session)
    sell(session)
# ... the framework commits, and only then the lock is free"""

STOCK = 20
RECEIPT = 0.002
PLAY_TIMEOUT_SECONDS = 25.0
WORKERS = [f"worker {number}" for number in range(1, 5)]


def play(url: str | None, *, guarded: bool) -> Play:
    """Let four processes sell the stock, and count the sales."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "shop.db"))
        with closing(sqlite3.connect(file)) as shop:
            shop.execute("PRAGMA journal_mode = WAL")
            shop.execute("CREATE TABLE stock (n INTEGER)")
            shop.execute("INSERT INTO stock VALUES (?)", [STOCK])
            shop.commit()
        arguments = [file, f"stock-{os.getpid()}", "guarded" if guarded else ""]
        sales, seconds = played(__name__, WORKERS, arguments, url=url)
    return Play(
        NAME,
        guarded,
        seconds,
        verdict=f"sold {len(sales)} of {STOCK}",
        is_right=len(sales) == STOCK,
        sold=len(sales),
        stock=STOCK,
        spans=spans_of([(who, one["begin"], one["end"]) for who, one in sales]),
        zoom=14,
    )


def request(shop: sqlite3.Connection, lock: Lock, *, guarded: bool) -> tuple[float, float] | None:
    """Sell one item, if any is left, like a handler in a framework; return its start and end.

    The end is the time just before the commit. The commit frees the lock, so with a later time,
    this sale would overlap the next one in the drawing.
    """
    with ExitStack() as framework:  # the framework commits when the request is over
        with lock as lease:
            framework.enter_context(hold_until_commit(lease, shop) if guarded else shop)
            begin = time.monotonic()
            [left] = shop.execute("SELECT n FROM stock").fetchone()
            if left:
                shop.execute("UPDATE stock SET n = ?", [left - 1])
        if left:
            time.sleep(RECEIPT)  # stands for writing a receipt
        end = time.monotonic()
    return (begin, end) if left else None


def work(me: str, file: str, name: str, *, guarded: bool) -> None:
    """Sell items until none is left."""
    sales = []
    with (
        worker_client(me) as locks,
        closing(sqlite3.connect(file, timeout=PLAY_TIMEOUT_SECONDS)) as shop,
    ):
        shop.execute("PRAGMA synchronous = OFF")  # the demo is about order, not about disks
        lock = locks.lock(name)
        send_message("ready")
        wait_for_director()
        while (sale := request(shop, lock, guarded=guarded)) is not None:
            sales.append(sale)
    for begin, end in sales:
        send_message("sold", begin=begin, end=end)


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], sys.argv[3], guarded=bool(sys.argv[4]))
