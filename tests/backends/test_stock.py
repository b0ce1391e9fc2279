"""Sixteen processes take from one stock many times each; under a lock, no sale is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from servers import mariadb, postgresql
from stock import LONG, PROCESSES, TIMES, Stock

from lockfast_challenge.servers.redis import RedisServer


@pytest.fixture
def stock(tmp_path) -> Stock:
    return Stock(tmp_path / "stock")


def test_without_a_lock_some_are_lost(stock):
    """If no sale were lost without a lock, the other tests would prove nothing."""
    assert 0 < stock.left_when_all_have_taken() < PROCESSES * TIMES


@pytest.mark.timeout(LONG)  # on a busy machine the processes are scheduled late
@pytest.mark.parametrize("store", ["mariadb", "postgresql", "redis", "sqlite"])
def test_behind_a_lock_none_is_lost(stock, store, tmp_path, outliving):
    """On MariaDB, which has no wakeups, all processes retry instead of waiting in a slow line."""
    how = ["insist"] if store == "mariadb" else []

    assert stock.left_when_all_have_taken(url_of(store, tmp_path, outliving), *how) == 0


def url_of(store: str, directory: Path, outliving) -> str:
    if store == "sqlite":
        return f"sqlite://{directory}/locks.db"
    if store == "redis":
        return outliving.enter_context(RedisServer()).url
    if store == "postgresql":
        return postgresql.shared_server().url()
    server = mariadb.shared_server()
    server.run("CREATE DATABASE IF NOT EXISTS test")
    return server.url()
