"""No default of a server or a user changes what our statements mean, or whether they commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import asyncmy
import pymysql
import pytest
from backends.mysql import each_server
from backends.sql.lent import PATIENT, lent_connection
from backends.sql.session_variable_laws import HostileDefaultsLaws, unclear

from lockfast import BackendUnavailable, ConfigurationError
from lockfast.backends.mysql.session_variables import LEFT, PINNED
from lockfast_challenge.servers.mysql import MariadbServer, MysqlCompatibleServer

# Time limits are short, but long enough for a machine that stalls: the first statements of a
# session, which pin them, are subject to them.
HOSTILE = {
    "autocommit": "0",
    "completion_type": "'CHAIN'",
    "unique_checks": "0",
    "foreign_key_checks": "0",
    "sql_select_limit": "1",
    "max_join_size": "1",  # which turns sql_big_selects off
    "sql_safe_updates": "1",
    "query_cache_type": "'ON'",
    "max_sort_length": "64",
    "group_concat_max_len": "4",
    "sql_mode": "'ANSI,NO_BACKSLASH_ESCAPES'",
    "time_zone": "'+07:00'",
    "character_set_client": "'latin1'",
    "character_set_results": "'latin1'",
    "collation_connection": "'latin1_german1_ci'",
    "sql_if_exists": "1",
    "wait_timeout": "17",
    "innodb_lock_wait_timeout": "1",
    "lock_wait_timeout": "1",
    "max_statement_time": "17",
    "max_execution_time": "17000",
    "idle_transaction_timeout": "17",
    "idle_readonly_transaction_timeout": "17",
    "idle_write_transaction_timeout": "17",
    "sort_buffer_size": "1024",
    "max_session_mem_used": "1000000",
    "tmp_disk_table_size": "1024",
    "innodb_snapshot_isolation": "1",
    "sql_notes": "1",
    # -- not pinned ----------------------------------------------------------------------------
    "div_precision_increment": "0",
    "join_cache_level": "8",
    "sql_auto_is_null": "1",
    "sql_buffer_result": "1",
    "max_error_count": "0",
}
OF_THE_SERVER = 1238
"""The error code for a variable that exists for the server, but not for a session."""

IMPLIED = {"sql_big_selects": "max_join_size"}


def variables_of(server: MysqlCompatibleServer) -> set[str]:
    """Return every variable that a session has of its own."""
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES")
        names = {str(name).lower() for name, _ in cursor.fetchall()}
        for name in list(names):
            try:
                cursor.execute(f"SELECT @@SESSION.{name}")
            except pymysql.MySQLError as error:
                if error.args[0] != OF_THE_SERVER:
                    raise
                names.remove(name)
        return names


def is_value(said: str, found: object) -> bool:
    """Return whether a variable has the value that a statement gave it."""
    try:
        return float(said) == float(str(found))
    except ValueError:
        return said.strip("'") == str(found)


@pytest.fixture(scope="module", params=each_server.KINDS)
def hostile_and_known(request) -> Iterator[tuple[MysqlCompatibleServer, set[str]]]:
    is_mariadb = request.param is MariadbServer
    options = ["--query-cache-type=1", "--query-cache-size=1M"] if is_mariadb else []
    with request.param(*options) as one:
        known = variables_of(one)
        one.run("CREATE DATABASE test")
        one.run("CREATE USER app")
        one.run("GRANT ALL ON test.* TO app")
        with closing(one.connect()) as connection, connection.cursor() as cursor:
            # The server runs this in each new session, after the driver has announced its charset.
            cursor.execute("SET GLOBAL init_connect = 'SET NAMES latin1'")
            for name in HOSTILE.keys() & known:
                cursor.execute(f"SET GLOBAL {name} = {HOSTILE[name]}")
        yield one, known


@pytest.fixture
def hostile(hostile_and_known) -> MysqlCompatibleServer:
    """A server whose defaults are all hostile to users without special privileges."""
    return hostile_and_known[0]


@pytest.fixture
def known(hostile_and_known) -> set[str]:
    """All session variables of the hostile server."""
    return hostile_and_known[1]


def test_every_variable_of_a_session_stands_in_the_table_once(known):
    """A variable that a newer server adds has to be examined and entered in the table."""
    assert unclear(known, PINNED, LEFT) == {}


def test_every_variable_that_is_pinned_is_hostile_here(hostile, known):
    """Otherwise the tests below would prove nothing about the pinned variable."""
    pinned = {one.name: one.value for one in PINNED}
    assert not pinned.keys() - HOSTILE.keys() - IMPLIED.keys()

    with closing(hostile.connect("test", user="app")) as connection, connection.cursor() as cursor:
        for name in (pinned.keys() - IMPLIED.keys()) & known:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            [(found,)] = cursor.fetchall()
            assert not is_value(pinned[name], found), name


def test_our_session_pins_each(wire_to, hostile, known):
    transport = wire_to(hostile.url(user="app"))
    pinned = [one for one in PINNED if one.name in known]

    [found] = transport.ask(f"SELECT {', '.join(f'@@SESSION.{one.name}' for one in pinned)}")

    wrong = {
        one.name: value
        for one, value in zip(pinned, found, strict=True)
        if not is_value(one.value, value) and one.name != "innodb_snapshot_isolation"
    }
    assert wrong == {}


@pytest.fixture
def lent(flavour, hostile) -> Callable[[], Any]:
    """Return a function that connects as an application does."""
    where = {"host": "127.0.0.1", "port": hostile.port, "user": "app", "database": "test"}
    connect = pymysql.connect if flavour.name == "sync" else asyncmy.connect
    return lambda: lent_connection(flavour, partial(connect, **where, charset="utf8mb4")).client


class TestHostileDefaults(HostileDefaultsLaws):
    @pytest.fixture(params=["own", "lent"])
    def opened(self, request, flavour, hostile, lent) -> Callable[[], Any]:
        if request.param == "own":
            return lambda: flavour.locks(hostile.url(user="app"), **PATIENT)
        return lambda: flavour.adopted(lent(), **PATIENT)


def test_a_commit_that_would_end_the_connection_does_not(flavour, hostile, name):
    """With `RELEASE`, a server would end the connection after each commit; we pin the value."""
    hostile.run("SET GLOBAL completion_type = 'RELEASE'")
    try:
        one, other = (flavour.locks(hostile.url(user="app"), **PATIENT) for _ in range(2))
        lease = one.lock(name).acquire(timeout=20)
        assert other.lock(name).try_acquire() is None
    finally:
        hostile.run("SET GLOBAL completion_type = 'CHAIN'")

    lease.release()

    assert other.lock(name).acquire(timeout=20).token > lease.token


def test_a_server_whose_transactions_write_nothing_is_not_written_to(flavour, hostile, known, name):
    """An operator closes a server to writes this way, perhaps because another server takes over."""
    setting = "transaction_read_only" if "transaction_read_only" in known else "tx_read_only"
    hostile.run(f"SET GLOBAL {setting} = 1")
    try:
        locks = flavour.locks(hostile.url(user="app"), **PATIENT)

        with pytest.raises(ConfigurationError, match="takes no writes"):
            locks.lock(name).acquire(timeout=5)
    finally:
        hostile.run(f"SET GLOBAL {setting} = 0")


def test_a_lent_session_whose_clock_stands_still_is_refused(flavour, hostile, lent, name):
    connection = lent()
    cursor = flavour.call(connection.cursor)
    flavour.call(cursor.execute, "SET timestamp = 1000000000")
    locks = flavour.adopted(connection, **PATIENT)

    with pytest.raises(BackendUnavailable, match="SET timestamp has stopped the clock"):
        locks.lock(name).acquire(timeout=5)
