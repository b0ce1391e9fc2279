"""A real server that may break, a proxy in front of it, and a stranger that locks our rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pymysql
import pytest
import sql_door
from backends.mysql.waits import who_wait
from sql_door import Stranger

from lockfast_challenge.servers.mysql import MariadbServer, MysqlCompatibleServer

ALL_OTHERS = """
SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'root' AND ID <> CONNECTION_ID()
"""

DEADLOCKS = "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'"


def end(server: MysqlCompatibleServer, *numbers: int) -> None:
    """End sessions, unless they have ended by themselves."""
    with server.connect() as connection, connection.cursor() as cursor:
        for number in numbers:
            with suppress(pymysql.OperationalError):
                cursor.execute("KILL %s", (number,))


class LockedRows:
    """A `Stranger` that locks rows on MariaDB or MySQL."""

    def __init__(self, server: MysqlCompatibleServer) -> None:
        self._server = server
        self._connection = server.connect("test", autocommit=False)

    def lock(self, name: str) -> None:
        with self._connection.cursor() as cursor:
            # In a deadlock the server ends the session that has written less, so write many rows
            # here.
            cursor.execute("CREATE TEMPORARY TABLE IF NOT EXISTS heavy (n int) ENGINE=InnoDB")
            cursor.executemany("INSERT INTO heavy VALUES (%s)", [(n,) for n in range(50)])
            row = "SELECT 1 FROM lockfast_door WHERE `key` = %s FOR UPDATE"
            cursor.execute(row, (f"lockfast\0{name}".encode(),))

    def is_waited_for(self) -> bool:
        return bool(who_wait(self._server))

    def end_waiters(self) -> None:
        numbers = who_wait(self._server)
        assert numbers
        end(self._server, *numbers)

    def let_go(self) -> None:
        if self._connection.open:
            self._connection.close()

    def deadlocks(self) -> int:
        return int(self._server.run(DEADLOCKS)[0][0])


@pytest.fixture(scope="module")
def module_server() -> Iterator[MariadbServer]:
    with MariadbServer() as one:
        one.run("CREATE DATABASE test")
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
    return lambda: end(server, *(number for (number,) in server.run(ALL_OTHERS)))


@pytest.fixture
def buried(server) -> Callable[[str], bool]:
    row = "SELECT 1 FROM lockfast_door WHERE `key` = %s AND id <> '' AND standing = 4"
    return lambda name: bool(server.run(row, f"lockfast\0{name}".encode(), database="test"))
