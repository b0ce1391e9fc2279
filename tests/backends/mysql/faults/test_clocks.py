"""The server's clock jumps, forwards and backwards, while locks are held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from clock_jumps import SqlClockJumps

from lockfast_challenge.servers.mysql import ShiftedMariadb


@pytest.fixture(scope="module")
def module_server() -> Iterator[ShiftedMariadb]:
    with ShiftedMariadb() as one:
        one.run("CREATE DATABASE test")
        yield one


@pytest.fixture
def server_time(server):
    return lambda: float(server.run("SELECT UNIX_TIMESTAMP(SYSDATE(6))")[0][0])


class TestClockJumps(SqlClockJumps):
    """The tests for every store whose server has a clock."""
