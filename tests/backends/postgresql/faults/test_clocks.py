"""The server's clock jumps, forwards and backwards, while locks are held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from clock_jumps import SqlClockJumps

from lockfast_challenge.servers.postgresql import ShiftedPostgresql


@pytest.fixture(scope="module")
def module_server() -> Iterator[ShiftedPostgresql]:
    with ShiftedPostgresql() as one:
        yield one


@pytest.fixture
def server_time(server):
    return lambda: server.run("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0]


class TestClockJumps(SqlClockJumps):
    """The tests for every store whose server has a clock."""
