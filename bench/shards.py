"""Measures how fast many sellers sell one stock, with one lock and with a lock for each shard.

Each sale holds its lock for a millisecond, as reading and writing a row would. A file keeps the
number of remaining items, for each shard, and exactly the initial stock is sold.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier

from bench.measuring import load, machine
from bench.reporting import Report
from bench.waiting import redis_store, sqlite_store

GOODS = 10_000
SELLERS = 32
SHARDS = 8
WORK = 0.001

WHY = """\
We aimed at four times the rate. Eight shards could sell eight times as much as one lock, where the
processor has the time: here 32 processes and the store share it, and are busy all the while. A sale
takes about a millisecond of it in all, so that two cores do some two thousand a second at most.
SQLite has one writer at a time besides, whatever the name.
"""


class Goods:
    """The remaining items of each shard, in a file that all sellers share."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR)

    def sell(self, shard: int) -> bool:
        """Sell one item of a shard, if any is left; the caller holds the shard's lock."""
        [left] = struct.unpack("=q", os.pread(self._file, 8, 8 * shard))
        if not left:
            return False
        time.sleep(WORK)
        os.pwrite(self._file, struct.pack("=q", left - 1), 8 * shard)
        return True


def sell(together: Barrier, sold: SimpleQueue[int], url: str, path: str, shards: int) -> None:
    """Sell until nothing is left, and report how many items were sold.

    A seller that fails reports too, because `rate` waits for the report of every seller.
    """
    mine = 0
    try:
        for _ in sales(together, url, path, shards):
            mine += 1
    finally:
        sold.put(mine)


def sales(together: Barrier, url: str, path: str, shards: int) -> Iterator[None]:
    """Yield at each sale, until nothing is left."""
    import lockfast  # noqa: PLC0415 - after the fork

    goods = Goods(path)
    with lockfast.Locks(url, request_timeout=30) as locks:
        lease: lockfast.Lease
        stock = locks.sharded("stock", shards=shards)
        others = set(range(shards))
        stock.acquire_any().release()  # connect beforehand, because only selling is measured
        together.wait(600)
        while others:
            if len(others) == shards:
                lease = any_shard = stock.acquire_any()
                shard = any_shard.shard
            else:  # some shards are sold out: choose one that may have items left
                shard = random.choice([*others])  # noqa: S311 - only spreads sellers over shards
                lease = locks.lock(stock.names[shard]).acquire()
            with lease:
                has_sold = goods.sell(shard)
            if has_sold:
                yield
            else:
                others.discard(shard)


def rate(url: str, shards: int) -> tuple[float, int]:
    """Return how many items were sold per second, and how many in total."""
    context = multiprocessing.get_context("fork")
    together, sold = context.Barrier(SELLERS + 1), context.SimpleQueue()
    with _stock(shards) as path:
        sellers = [
            context.Process(target=sell, args=(together, sold, url, path, shards))
            for _ in range(SELLERS)
        ]
        for one in sellers:
            one.start()
        together.wait(600)
        started = time.perf_counter()
        number = sum(sold.get() for _ in sellers)
        took = time.perf_counter() - started
        for one in sellers:
            one.join()
    return number / took, number


@contextmanager
def _stock(shards: int) -> Iterator[str]:
    with tempfile.NamedTemporaryFile() as file:
        file.write(struct.pack("=q", GOODS // shards) * shards)
        file.flush()
        yield file.name


def main() -> Report:
    """Run the suite."""
    report = Report("shards", "One lock, and one in shards, measured")
    report.say(
        f"{machine()}, {load()}. {SELLERS} processes sell a stock of {GOODS:,}: first all of them "
        f"behind one lock, then split into {SHARDS} shards, of which each takes any that is free "
        "(`sharded`). Whoever finds a shard sold out turns to another. The stock has to be sold "
        "exactly, in both columns at the end. `python -m bench shards` repeats it."
    )
    rows = []
    for name, store in (("redis", redis_store), ("sqlite", sqlite_store)):
        with store() as url:
            single, sold_singly = rate(url, 1)
            sharded, sold = rate(url, SHARDS)
        rows.append(
            [name, f"{single:.0f}", f"{sharded:.0f}", f"{sharded / single:.1f}", f"{sold_singly}",
             f"{sold}"]
        )  # fmt: skip
    report.table(
        f"{SELLERS} processes sell {GOODS:,}, each sale holding {WORK * 1e3:g} ms",
        [
            "store",
            "one lock, sales/s",
            f"{SHARDS} shards, sales/s",
            "times",
            "sold behind one",
            "sold in shards",
        ],
        rows,
    )
    report.say(WHY)
    return report
