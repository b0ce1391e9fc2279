"""Sixteen processes take from one row many times; with a lock and a fence, no piece is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from callers import Caller
from fencing.fenced_stock import Goods
from puppets import environment
from servers import mariadb, postgresql
from stock import LONG, PROCESSES, TIMES

SCRIPT = Path(__file__).with_name("fenced_stock.py")
FEW = 20
"""Turns of each process without a lock and a fence: enough for some pieces to be lost."""

KINDS = {"sqlite": "sqlite3", "postgresql": "psycopg", "mariadb": "pymysql"}


@pytest.fixture(params=KINDS)
def goods(request, tmp_path):
    """Return how to reach the row, which has just enough for every process to take its share."""
    kind = request.param
    caller = Caller(KINDS[kind], tmp_path)
    caller.run("DROP TABLE IF EXISTS goods")
    caller.run("CREATE TABLE goods (id INT PRIMARY KEY, left_over INT, fence BIGINT)")
    caller.run(f"INSERT INTO goods (id, left_over) VALUES (1, {PROCESSES * TIMES})")
    caller.commit()
    caller.close()
    if kind == "sqlite":
        return kind, str(tmp_path / "callers.db")
    if kind == "postgresql":
        return kind, postgresql.shared_server().url()
    return kind, str(mariadb.shared_server().port)


def left_when_all_have_taken(goods: tuple[str, str], times: int, *store: str) -> int:
    command = [sys.executable, str(SCRIPT), *goods, str(PROCESSES), str(times), *store]
    subprocess.run(command, env=environment(), check=True, timeout=LONG)
    found = Goods(*goods)
    left = found.left()
    found.connection.close()
    return left


@pytest.mark.timeout(LONG)  # a busy machine may take long to run all processes
def test_behind_a_lock_and_a_fence_none_is_lost(goods, tmp_path):
    assert left_when_all_have_taken(goods, TIMES, f"sqlite://{tmp_path}/locks.db") == 0


@pytest.mark.timeout(LONG)  # as above
def test_without_them_some_are_lost(goods):
    """If no piece were lost without the lock and the fence, the test above would prove nothing."""
    assert left_when_all_have_taken(goods, FEW) > PROCESSES * (TIMES - FEW)
