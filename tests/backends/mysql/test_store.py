"""What only this store can get wrong: names under a collation, waits without wakeups, a fork."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from backends.mysql import each_server
from backends.mysql.waits import who_wait
from both_flavours import number_waiting
from odd_names import are_distinct

from lockfast.backends.mysql.dialect import MysqlDialect
from lockfast.backends.mysql.schema import MysqlTables
from lockfast.backends.mysql.statements import NOW
from lockfast.core.naming import storage_key
from lockfast_challenge.processes import eventually

server = each_server.server

PATIENT = {"request_timeout": 20.0}
"""A generous timeout for a busy machine, because no request here is meant to fail."""


@pytest.mark.parametrize("collation", ["swedish_ci", "general_ci", "unicode_ci", "bin"])
def test_names_that_a_collation_takes_for_the_same_are_distinct_locks(
    flavour, server, namespace, collation
) -> None:
    database = f"collated_{collation}"
    server.run(f"CREATE DATABASE IF NOT EXISTS {database} COLLATE utf8mb4_{collation}")
    locks = flavour.locks(server.url(database), namespace=namespace, **PATIENT)

    assert are_distinct(locks)


def test_any_text_may_be_an_owner(flavour, server, namespace) -> None:
    owner = "saga\0 ' 🔒"
    locks, others = (flavour.locks(server.url(), namespace=namespace, **PATIENT) for _ in range(2))
    one, other = (
        client.lock("door", owner=owner).acquire(timeout=20) for client in (locks, others)
    )

    assert one.token == other.token
    assert len(locks.break_("door", owner=owner)) == 2


def test_the_time_is_read_after_the_lock_was_waited_for(
    flavour, transport, server, namespace
) -> None:
    """If the time were read earlier, a lease that ended during the wait would look alive."""
    locks = flavour.locks(server.url(), namespace=namespace, **PATIENT)
    locks.lock("door").acquire(timeout=20)
    key, dialect = storage_key(namespace, "door"), MysqlDialect(MysqlTables())

    def steps():
        return dialect.seen((yield dialect.door(key, front=2, locked=True))).now

    with server.connect("test", autocommit=False) as other, other.cursor() as cursor:
        cursor.execute("SELECT * FROM lockfast_door WHERE `key` = %s FOR UPDATE", (key,))
        waiting = flavour.start(transport.transact, steps)
        eventually(lambda: who_wait(server), what="it waits for the row")
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT SLEEP(0.2), {NOW}")
        [(_, earliest)] = cursor.fetchall()
        other.rollback()

    assert waiting.result() >= earliest


def test_an_idle_name_is_one_row_and_can_be_swept(flavour, server, namespace) -> None:
    """Even if the row is deleted by hand, the next token is larger than all earlier ones."""
    database = f"sweep_{flavour.name}"
    server.run(f"CREATE DATABASE {database}")
    locks = flavour.locks(server.url(database), **PATIENT)
    first = locks.lock("door").acquire(timeout=20)
    first.release()
    rows = "SELECT (SELECT count(*) FROM lockfast_door), (SELECT count(*) FROM lockfast_place)"
    assert server.run(rows, database=database) == ((1, 0),)

    reap = "DELETE FROM lockfast_door WHERE id = '' AND crowd = 0 AND last_token < "
    server.run(f"{reap} (UNIX_TIMESTAMP() + 86400) * 1000000", database=database)

    assert server.run(rows, database=database) == ((0, 0),)
    assert locks.lock("door").acquire(timeout=20).token > first.token


@pytest.fixture
def asked(server) -> Iterator[Callable[[], int]]:
    """Return a function that counts the statements that the user `waiter` has sent so far."""
    server.run("CREATE USER IF NOT EXISTS waiter@'127.0.0.1'")
    server.run("GRANT ALL ON test.* TO waiter@'127.0.0.1'")
    server.run("TRUNCATE mysql.general_log")
    server.run("SET GLOBAL log_output = 'TABLE', GLOBAL general_log = ON")
    count = """
        SELECT COUNT(*) FROM mysql.general_log
        WHERE user_host LIKE 'waiter%' AND command_type = 'Query'
    """
    yield lambda: server.run(count)[0][0]
    server.run("SET GLOBAL general_log = OFF")


def test_beyond_the_head_a_client_asks_about_once_a_second(
    flavour, server, namespace, asked
) -> None:
    """The number of a client's waiting claims does not change how often the client asks."""
    holder, heads = (flavour.locks(server.url(), namespace=namespace, **PATIENT) for _ in range(2))
    others = flavour.locks(server.url(user="waiter"), namespace=namespace, **PATIENT)
    leases = [holder.lock(f"door{i}").acquire(timeout=20) for i in range(3)]
    first = [flavour.start(heads.lock(f"door{i}").acquire, timeout=50) for i in range(3)]
    eventually(lambda: all(len(holder.inspect(f"door{i}").line) == 1 for i in range(3)))
    rest = [flavour.start(others.lock(f"door{i % 3}").acquire, timeout=50) for i in range(9)]
    eventually(lambda: number_waiting(others) == 9, what="all have been told to wait")
    before, began = asked(), flavour.clock.now()

    threading.Event().wait(5.0)

    # A client on a slow machine asks less often.
    assert 1 <= asked() - before <= (flavour.clock.now() - began) + 2
    for lease in leases:
        lease.release()
    for one in (*first, *rest):
        flavour.start(lambda one=one: one.result(50).release())
    eventually(lambda: all(one.done() for one in rest), within=50, what="all had their turn")
