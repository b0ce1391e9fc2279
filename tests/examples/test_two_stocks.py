"""The stock in Redis and a database is never oversold, at whichever step a seller is killed."""

from __future__ import annotations

import importlib.util
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import redis
from puppets import environment

import lockfast
from lockfast_challenge.servers.redis import RedisServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "two_stocks.py"
_spec = importlib.util.spec_from_file_location("two_stocks", EXAMPLE)
assert _spec is not None
assert _spec.loader is not None
two_stocks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(two_stocks)

STOCK = 3


@pytest.fixture(scope="module")
def server():
    with RedisServer() as one:
        yield one


@pytest.fixture
def file(tmp_path, server):
    with redis.Redis.from_url(server.url) as cache:
        cache.flushall()
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as shop:
        two_stocks.set_up(shop, stock=STOCK)
    return path


def sell(file: Path, server: RedisServer, number: str, killed_at: str = "") -> int:
    """Run a seller in a separate process, and return its exit code."""
    command = [sys.executable, str(EXAMPLE), "sell", str(file), server.url, number, killed_at]
    return subprocess.run(command, env=environment(), timeout=120, check=False).returncode


def counted(file: Path, server: RedisServer) -> tuple[int, int, int]:
    """Return what the database has left, what Redis shows, and how many were sold."""
    with closing(sqlite3.connect(file)) as shop, redis.Redis.from_url(server.url) as cache:
        [left] = shop.execute("SELECT n FROM stock").fetchone()
        [sold] = shop.execute("SELECT count(*) FROM sales").fetchone()
        return left, int(cache.hget("stock:lamp", "left")), sold


@pytest.mark.parametrize("step", two_stocks.STEPS)
def test_a_seller_that_is_killed_there_costs_no_lamp_and_sells_none_twice(file, server, step):
    assert sell(file, server, "killed", killed_at=step) == -signal.SIGKILL

    left, shown, sold = counted(file, server)
    assert left + sold == STOCK
    assert shown == left - 1 if step in ("shown", "written") else shown == left

    ends = [sell(file, server, number) for number in ("killed", "b", "c", "d")]

    assert ends == [0, 0, 0, 1]  # the killed order is taken exactly once; none is left for the last
    assert counted(file, server) == (0, 0, STOCK)


def test_a_restart_puts_right_what_redis_shows(file, server):
    sell(file, server, "killed", killed_at="shown")
    assert counted(file, server) == (3, 2, 0)

    with (
        closing(sqlite3.connect(file)) as shop,
        lockfast.Locks(server.url, request_timeout=30) as locks,
        redis.Redis.from_url(server.url) as cache,
    ):
        two_stocks.reconcile(locks, shop, cache)

    assert counted(file, server) == (3, 3, 0)


def test_a_seller_whose_lease_is_over_is_refused_by_both(file, server):
    """A seller may have been frozen between reading and writing, while another seller sold."""
    with (
        closing(sqlite3.connect(file)) as shop,
        closing(sqlite3.connect(file)) as other_shop,
        lockfast.Locks(server.url, request_timeout=30) as locks,
        lockfast.Locks(server.url, request_timeout=30) as others,
        redis.Redis.from_url(server.url) as cache,
    ):

        def overtaken(name: str) -> None:
            if name == "read":
                others.break_("stock:lamp")
                assert two_stocks.sell(others, other_shop, cache, "quick")

        with pytest.raises(lockfast.LockError):
            two_stocks.sell(locks, shop, cache, "late", step=overtaken)

        assert not two_stocks.is_sold(shop, "late")
    assert counted(file, server) == (2, 2, 1)
