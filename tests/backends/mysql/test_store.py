"""What only this store can do wrong: names under a collation, waiting without a ring, a fork."""

from __future__ import annotations

import threading
import time
from typing import Any

from eventually import eventually

from holdfast.backends.mysql.dialect import MysqlDialect
from holdfast.backends.mysql.schema import Tables
from holdfast.backends.mysql.statements import NOW
from holdfast.core.naming import storage_key

ALIKE = ("job", "JOB", "jób", "job ", "job\0", "job'", 'job"', "job\\", "job%s", "j;ob", "🔒" * 128)


def test_names_that_a_collation_takes_for_the_same_are_distinct_locks(
    flavour, server, namespace
) -> None:
    server.run("CREATE DATABASE IF NOT EXISTS swedish COLLATE utf8mb4_swedish_ci")
    locks = flavour.locks(server.url("swedish"), namespace=namespace)

    leases = [locks.lock(name).acquire(timeout=5) for name in ALIKE]

    assert [one.name for one in locks.survey()] == sorted(ALIKE, key=str.encode)
    for one in leases:
        one.release()


def test_any_text_may_be_an_owner(flavour, server, namespace) -> None:
    owner = "saga\0 ' 🔒"
    locks, others = (flavour.locks(server.url(), namespace=namespace) for _ in range(2))
    one, other = (client.lock("door", owner=owner).acquire(timeout=5) for client in (locks, others))

    assert one.token == other.token
    assert len(locks.break_("door", owner=owner)) == 2


def number_of_waits(server) -> int:
    """Return how many wait for a lock of a row."""
    # What this table tells is kept by the server, and made anew only for who has not asked for a
    # tenth of a second: whoever asks more often is told the same for ever.
    time.sleep(0.15)
    [[count]] = server.run("SELECT count(*) FROM information_schema.INNODB_LOCK_WAITS")
    return count


def test_the_time_is_read_after_the_lock_was_waited_for(flavour, wire, server, namespace) -> None:
    """Read earlier, a lease that ended while we waited would look alive."""
    flavour.locks(server.url(), namespace=namespace).lock("door").acquire(timeout=5)
    key, dialect = storage_key(namespace, "door"), MysqlDialect(Tables())

    def steps():
        return dialect.seen((yield dialect.door(key, front=2, locked=True))).now

    with server.connect("test", autocommit=False) as other, other.cursor() as cursor:
        cursor.execute("SELECT * FROM holdfast_door WHERE `key` = %s FOR UPDATE", (key,))
        waiting = flavour.start(wire.transact, steps)
        eventually(lambda: number_of_waits(server) > 0, what="it waits for the row")
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT SLEEP(0.2), {NOW}")
        [(_, earliest)] = cursor.fetchall()
        other.rollback()

    assert waiting.result() >= earliest


def test_an_idle_name_is_one_row_and_can_be_swept(flavour, server, namespace) -> None:
    """Also by hand, without a token going back."""
    database = f"sweep_{flavour.name}"
    server.run(f"CREATE DATABASE {database}")
    locks = flavour.locks(server.url(database))
    first = locks.lock("door").acquire(timeout=5)
    first.release()
    rows = "SELECT (SELECT count(*) FROM holdfast_door), (SELECT count(*) FROM holdfast_place)"
    assert server.run(rows, database=database) == ((1, 0),)

    sweep = "DELETE FROM holdfast_door WHERE id = '' AND crowd = 0 AND last_token < "
    server.run(f"{sweep} (UNIX_TIMESTAMP() + 86400) * 1000000", database=database)

    assert server.run(rows, database=database) == ((0, 0),)
    assert locks.lock("door").acquire(timeout=5).token > first.token


def test_beyond_the_head_a_client_asks_about_once_a_second(flavour, server, namespace) -> None:
    """However many of its claims wait."""
    url = server.url()
    holder = flavour.locks(url, namespace=namespace)
    leases = [holder.lock(f"door{i}").acquire(timeout=5) for i in range(3)]
    heads = flavour.locks(url, namespace=namespace)
    first = [flavour.start(heads.lock(f"door{i}").acquire, timeout=50) for i in range(3)]
    eventually(lambda: all(len(holder.inspect(f"door{i}").line) == 1 for i in range(3)))
    others = flavour.locks(url, namespace=namespace)
    rest = [flavour.start(others.lock(f"door{i % 3}").acquire, timeout=50) for i in range(9)]
    eventually(lambda: all(len(holder.inspect(f"door{i}").line) == 4 for i in range(3)))
    pool = getattr(others, "_inner", others)._client.backend._wire._pool
    eventually(lambda: len(pool._idle) == pool.size, what="all have been told to wait")
    asked = Counting(pool)
    began = flavour.clock.now()

    threading.Event().wait(5.0)

    # A slow machine makes them fewer.
    assert 1 <= asked.count <= (flavour.clock.now() - began) + 2
    for lease in leases:
        lease.release()
    for one in (*first, *rest):
        flavour.start(lambda one=one: one.result(50).release())
    eventually(lambda: all(one.done() for one in rest), within=50, what="all had their turn")


class Counting:
    """Counts how often a connection is taken out of a pool."""

    def __init__(self, pool: Any) -> None:
        self.count = 0
        self._put_back = pool.put_back
        pool.put_back = self

    def __call__(self, link: Any) -> None:
        self.count += 1
        self._put_back(link)
