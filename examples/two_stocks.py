"""A stock kept twice: in a database, which is authoritative, and in Redis, for shop windows.

One lock around both stores keeps two sellers apart. The lock cannot change both stores in one step,
and a seller may be killed between any two steps. So the steps are in such an order that a killed
seller does no harm:

    killed                          database    Redis       after a restart
    before anything                 right       right       nothing to do
    after Redis, before the commit  right       1 too low   a lamp that nobody can see: reconcile
    after the commit                right       right       the order is there: do not sell it again

Redis may show too few for a while, never too many; the database decides what is sold. After a start
or a failed order, call `reconcile`, and look up the number of the order to see whether it was
taken. A seller that was frozen past its lease is refused by both stores, because each store keeps
the largest token.

    python examples/two_stocks.py sell FILE REDIS-URL ORDER [STEP TO BE KILLED AT]
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import redis

import lockfast

STEPS = ("locked", "read", "shown", "written", "committed", "released")

# Redis runs this script as one step. A token smaller than the last one comes from a seller whose
# lease is over.
SHOW = """
if tonumber(ARGV[2]) < tonumber(redis.call('HGET', KEYS[1], 'token') or '0') then return 0 end
redis.call('HSET', KEYS[1], 'left', ARGV[1], 'token', ARGV[2])
return 1
"""


def set_up(shop: sqlite3.Connection, *, stock: int) -> None:
    shop.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, n INTEGER, token INTEGER)")
    shop.execute("CREATE TABLE sales (number TEXT PRIMARY KEY, item TEXT)")
    shop.execute("INSERT INTO stock VALUES ('lamp', ?, 0)", [stock])
    shop.commit()


def sell(
    locks: lockfast.Locks,
    shop: sqlite3.Connection,
    cache: redis.Redis,
    number: str,
    *,
    step: Callable[[str], None] = lambda _name: None,
) -> bool:
    """Sell a lamp if one is left; return True also if this same order was taken before."""
    with locks.lock("stock:lamp", timeout=60) as lease:
        step("locked")
        if is_sold(shop, number):
            return True
        [left] = shop.execute("SELECT n FROM stock WHERE item = 'lamp'").fetchone()
        step("read")
        if left == 0:
            return False
        show(cache, left - 1, lease)  # Redis first: a number too low is harmless
        step("shown")
        with shop:  # the sale and the stock in one transaction
            done = shop.execute(
                "UPDATE stock SET n = n - 1, token = ?1"
                " WHERE item = 'lamp' AND token <= ?1 AND n > 0",
                [lease.token],
            )
            if done.rowcount != 1:
                raise lockfast.Stale("a later seller has written before us", name=lease.name)
            shop.execute("INSERT INTO sales VALUES (?, 'lamp')", [number])
            step("written")
            lease.check()
        step("committed")
    step("released")
    return True


def reconcile(locks: lockfast.Locks, shop: sqlite3.Connection, cache: redis.Redis) -> None:
    """Make Redis show what the database has; call it after a restart or a failed order."""
    with locks.lock("stock:lamp", timeout=60) as lease:
        [left] = shop.execute("SELECT n FROM stock WHERE item = 'lamp'").fetchone()
        show(cache, left, lease)


def is_sold(shop: sqlite3.Connection, number: str) -> bool:
    """Whether this order was taken, whatever became of the process that took it."""
    found = shop.execute("SELECT 1 FROM sales WHERE number = ?", [number]).fetchone()
    return found is not None


def show(cache: Any, left: int, lease: lockfast.Lease) -> None:  # noqa: ANN401 - redis.Redis
    """Write the number that shop windows show; raise Stale if a later holder has written one."""
    if not cache.eval(SHOW, 1, "stock:lamp", left, lease.token):
        raise lockfast.Stale("a later seller has written before us", name=lease.name)


def main(file: str, url: str, number: str, killed_at: str = "") -> None:
    def step(name: str) -> None:
        if name == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    with (
        closing(sqlite3.connect(file, timeout=60)) as shop,
        lockfast.Locks(url, ttl=1, request_timeout=30) as locks,
        redis.Redis.from_url(url) as cache,
    ):
        reconcile(locks, shop, cache)
        sys.exit(0 if sell(locks, shop, cache, number, step=step) else 1)


if __name__ == "__main__":
    main(*sys.argv[2:])
