"""A real server that may break, a proxy in front of it, and processes that can be killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import sql_door
from psycopg.pq import TransactionStatus
from sql_door import Stranger

from lockfast_challenge.servers.postgresql import PostgresqlServer

OURS = "application_name = 'lockfast'"
"""The SQL condition that selects the sessions of our clients."""

LISTENING = f"{OURS} AND query LIKE 'LISTEN%'"


def is_listening(server: PostgresqlServer) -> bool:
    """Return whether a client listens for notifications."""
    return bool(server.run(f"SELECT 1 FROM pg_stat_activity WHERE {LISTENING}"))


class LockedRows:
    """A `Stranger` that locks rows on PostgreSQL."""

    def __init__(self, server: PostgresqlServer) -> None:
        self._server = server
        self._connection = server.connect()

    def lock(self, name: str) -> None:
        if self._connection.info.transaction_status == TransactionStatus.IDLE:
            self._connection.execute("BEGIN")
            # A high timeout here leaves detecting the deadlock to the session that waits for this
            # row.
            self._connection.execute("SET LOCAL deadlock_timeout = '60s'")
        row = "SELECT FROM lockfast_door WHERE key = %s FOR UPDATE"
        self._connection.execute(row, (f"lockfast\0{name}".encode(),))

    def is_waited_for(self) -> bool:
        waits = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
        return self._server.run(waits, self._connection.info.backend_pid)[0][0] > 0

    def end_waiters(self) -> None:
        assert self._server.terminate(f"{OURS} AND wait_event_type = 'Lock'") > 0

    def let_go(self) -> None:
        self._connection.close()

    def deadlocks(self) -> int:
        count = "SELECT deadlocks FROM pg_stat_database WHERE datname = 'postgres'"
        return int(self._server.run(count)[0][0])


@pytest.fixture(scope="module")
def module_server() -> Iterator[PostgresqlServer]:
    with PostgresqlServer() as one:
        yield one


server, url = sql_door.server, sql_door.url
proxy, proxied = sql_door.proxy, sql_door.proxied
door = sql_door.door


@pytest.fixture
def stranger(server) -> Iterator[Stranger]:
    one = LockedRows(server)
    yield one
    one.let_go()


@pytest.fixture
def end_sessions(server) -> Callable[[], None]:
    def end() -> None:
        server.terminate(OURS)

    return end


@pytest.fixture
def buried(server) -> Callable[[str], bool]:
    row = "SELECT 1 FROM lockfast_door WHERE key = %s AND id <> '' AND standing = 4"
    return lambda name: bool(server.run(row, f"lockfast\0{name}".encode()))
