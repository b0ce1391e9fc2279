"""Locks over an application's connections work, and leave the connections as they were."""

from __future__ import annotations

import pytest
from backends.mysql import each_server
from backends.sql.lent import PATIENT, LendingLaws
from pymysql.constants import CLIENT
from pymysql.cursors import DictCursor

from lockfast import BackendUnavailable, ConfigurationError

SESSION = "SHOW SESSION VARIABLES WHERE Variable_name NOT IN (%s)"
NOT_OURS = (
    "'timestamp', 'last_insert_id', 'warning_count', 'rand_seed1', 'rand_seed2', 'identity', "
    "'statement_id'"
)
# MariaDB before 11.1 has only tx_isolation, and MySQL only transaction_isolation.
ISOLATION = (
    "SHOW SESSION VARIABLES WHERE Variable_name IN ('tx_isolation', 'transaction_isolation')"
)
OF_THEIR_OWN = (
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET SESSION autocommit = 0, time_zone = '+07:00', wait_timeout = 1234, lock_wait_timeout = 8",
    "SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES', sql_notes = 1",
    "SET SESSION innodb_lock_wait_timeout = 7, group_concat_max_len = 4321",
    "SET SESSION completion_type = 'CHAIN', unique_checks = 0, foreign_key_checks = 0",
    "SET SESSION sql_select_limit = 4321, max_join_size = 4321, sql_safe_updates = 1",
    "SET SESSION max_sort_length = 128, sort_buffer_size = 65536",
    "SET NAMES utf8mb4 COLLATE utf8mb4_unicode_ci",
)

server = each_server.server


class TestLending(LendingLaws):
    """The tests for every kind of lender."""


def test_where_it_leads_is_told(flavour, lending, server):
    locks = flavour.adopted(lending.client)

    assert locks.location == f"mysql://{server.address}/test"


@pytest.mark.parametrize("settings", [(), OF_THEIR_OWN], ids=["defaults", "of_their_own"])
def test_a_session_comes_back_as_it_was(flavour, lend, ask, name, settings):
    """The session keeps the application's settings, although our statements need other settings."""
    connection = lend("connection").client
    for one in settings:
        ask(connection, one)
    session = SESSION % NOT_OURS
    before = ask(connection, session)
    locks = flavour.adopted(connection, **PATIENT)

    lease = locks.lock(name).acquire()
    assert locks.lock(name, reentrant=False).locked()
    lease.release()

    (locks.close if flavour.name == "sync" else locks.aclose)()
    assert ask(connection, session) == before
    assert ask(connection, "SELECT 'it''s'") == [("it's",)]


def test_the_sessions_of_an_engine_come_back_as_they_were(flavour, lend, ask, name):
    lending = lend("engine", isolation_level="SERIALIZABLE", pool_size=1, max_overflow=0)

    def isolation() -> str:
        handle = flavour.call(lending.client.connect)
        plain = getattr(handle, "sync_connection", handle)
        [(_, found), *_] = ask(plain.connection.driver_connection, ISOLATION)
        flavour.call(handle.close)
        return str(found)

    assert isolation() == "SERIALIZABLE"
    locks = flavour.adopted(lending.client, **PATIENT)
    locks.lock(name).acquire().release()

    assert isolation() == "SERIALIZABLE"


@pytest.mark.parametrize("flavour", ["sync"], indirect=True)
def test_cursors_and_patience_of_the_applications_own_do_not_matter(flavour, lend, name):
    """The connection's cursor class and timeouts do not affect the lock, and are not changed."""
    connection = lend("connection", cursorclass=DictCursor, read_timeout=17).client
    locks = flavour.adopted(connection, **PATIENT)

    locks.lock(name).acquire().release()
    locks.close()

    assert (connection._read_timeout, connection._write_timeout) == (17, None)
    assert connection.cursorclass is DictCursor


def test_a_transaction_of_the_applications_is_neither_joined_nor_committed(
    flavour, lend, ask, numbers, name
):
    """The error says that a transaction is open, and the transaction goes on undisturbed."""
    connection = lend("connection").client
    locks = flavour.adopted(connection, **PATIENT)
    ask(connection, "START TRANSACTION")
    ask(connection, f"UPDATE {numbers} SET v = 5 WHERE k = 1")

    with pytest.raises(BackendUnavailable, match="in the middle of a transaction"):
        locks.lock(name).acquire(timeout=10)

    assert ask(connection, f"SELECT v FROM {numbers} WHERE k = 1") == [(5,)]
    ask(connection, "ROLLBACK")
    assert ask(connection, f"SELECT v FROM {numbers} WHERE k = 1") == [(0,)]
    flavour.call(connection.rollback)
    locks.lock(name).acquire(timeout=10).release()


def test_a_connection_of_another_charset_is_refused(flavour, lend, name):
    locks = flavour.adopted(lend("connection", charset="latin1").client, **PATIENT)

    with pytest.raises(ConfigurationError, match="charset is latin1"):
        locks.lock(name).acquire(timeout=10)


def test_a_connection_that_counts_the_rows_it_found_takes_nobodys_lock(flavour, lend, held):
    """With FOUND_ROWS, which SQLAlchemy sets, a matched row counts as changed even if it is not."""
    locks = flavour.adopted(lend("connection", client_flag=CLIENT.FOUND_ROWS).client, **PATIENT)

    for _ in range(2):  # first with a name that is new to the client, then with a known name
        assert locks.lock(held.name).try_acquire() is None
    held.release()

    assert locks.lock(held.name).acquire(timeout=20).token > held.token
