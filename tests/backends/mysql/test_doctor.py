"""What the doctor finds about a server, its tables, and a user's permissions on them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from backends.mysql import each_server

from lockfast import Finding
from lockfast.backends.mysql.diagnostics import findings, of_session
from lockfast.backends.mysql.schema import MysqlTables
from lockfast.backends.sql.diagnostics import clock_ahead, clock_finding

NEEDED = "SELECT, INSERT, UPDATE, DELETE"

server = each_server.server


@pytest.fixture
def theirs(server, unmade) -> MysqlTables:
    """Tables that another user has created."""
    for statement in unmade.definition():
        server.run(statement, database="test")
    return unmade


@pytest.fixture
def user(server) -> Iterator[str]:
    """A user who may use the database, but only one table in it."""
    name = f"user_{os.urandom(4).hex()}"
    server.run("CREATE TABLE IF NOT EXISTS only_this (id int)", database="test")
    server.run(f"CREATE USER {name}@'127.0.0.1'")
    server.run(f"GRANT SELECT ON test.only_this TO {name}@'127.0.0.1'")
    yield name
    server.run(f"DROP USER {name}@'127.0.0.1'")


@pytest.fixture
def found(flavour, server) -> Callable[..., dict[str, Finding]]:
    def by_subject(tables: MysqlTables, **options: str) -> dict[str, Finding]:
        locks = flavour.locks(server.url(**options), table=tables.table, request_timeout=20)
        return {one.subject: one for one in locks.diagnose()}

    return by_subject


def test_a_server_that_is_well(found, theirs) -> None:
    said = found(theirs)

    assert {one: said[one].level for one in said} == {
        "server": "ok",
        "durability": "ok",
        "replication": "ok",
        "isolation": "ok",
        "keepalives": "ok",
        "clock": "ok",
        "permissions": "ok",
    }


def test_tables_that_the_first_use_makes_are_not_made_for_it(found, server, unmade) -> None:
    said = found(unmade)["tables"]

    assert said.level == "note"
    assert unmade.door in said.message
    assert "lockfast init" in said.remedy
    assert not server.run("SHOW TABLES LIKE %s", f"{unmade.table}%", database="test")


@pytest.mark.parametrize("lacking", NEEDED.split(", ")[1:])
def test_a_right_that_is_missing_is_named(found, server, user, theirs, lacking) -> None:
    for one in (theirs.door, theirs.place):
        server.run(f"GRANT {NEEDED} ON test.{one} TO {user}@'127.0.0.1'")
    server.run(f"REVOKE {lacking} ON test.{theirs.place} FROM {user}@'127.0.0.1'")

    said = found(theirs, user=user)["permissions"]

    assert said.level == "error"
    assert f"{lacking} command denied" in said.message
    assert theirs.place.strip("`") in said.message
    assert f"GRANT {NEEDED}" in said.remedy


def test_a_right_to_read_that_is_missing_is_named(found, server, user, theirs) -> None:
    server.run(f"GRANT INSERT, UPDATE, DELETE ON test.{theirs.door} TO {user}@'127.0.0.1'")
    server.run(f"GRANT {NEEDED} ON test.{theirs.place} TO {user}@'127.0.0.1'")

    said = found(theirs, user=user)["permissions"]

    assert said.level == "error"
    assert "SELECT command denied" in said.message


def test_what_is_tried_changes_nothing(flavour, server, theirs, found) -> None:
    locks = flavour.locks(server.url(), table=theirs.table, request_timeout=20)
    lease = locks.lock("door").acquire()
    before = server.run(f"SELECT * FROM {theirs.door}", database="test")

    found(theirs)

    assert server.run(f"SELECT * FROM {theirs.door}", database="test") == before
    lease.release()


def test_a_table_of_somebody_else(found, server, unmade) -> None:
    server.run(f"CREATE TABLE {unmade.door} (id int)", database="test")

    said = found(unmade)["permissions"]

    assert said.level == "error"
    assert "is not Lockfast's door table" in said.message


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("10.11.1-MariaDB", 2, 0, 0), ("durability", "warning", "is 2: a crash forgets")),
        (("10.11.1-MariaDB", 1, 1, 0), ("replication", "note", "sync_binlog is 0")),
        (("8.4.3", 1, 0, 0), ("server", "note", "the oldest they run on is 9.7")),
        (("9.7.4-2", 1, 0, 0), ("server", "ok", "MySQL 9.7.4-2")),
        (("10.5.22-MariaDB", 1, 0, 0), ("server", "error", "10.5.22-MariaDB, which lacks")),
        (("10.6.1-MariaDB", 1, 0, 0), ("server", "note", "the oldest they run on is 10.11")),
        (("11.8.9-MariaDB", 1, 0, 0), ("server", "ok", "11.8.9")),
        (("5.7.44-log", 1, 0, 0), ("server", "error", "MySQL 5.7.44-log, which lacks")),
    ],
)
def test_what_a_servers_settings_mean(row, expected) -> None:
    subject, level, words = expected

    [said] = [one for one in findings([row]) if one.subject == subject]

    assert said.level == level
    assert words in said.message


WELL = {"tx_isolation": "READ-COMMITTED", "log_bin": "OFF", "wait_timeout": "60"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("isolation", "ok", "read committed")),
        ({"tx_isolation": "REPEATABLE-READ"}, ("isolation", "error", "REPEATABLE-READ, although")),
        (
            {"transaction_isolation": "SERIALIZABLE"},
            ("isolation", "error", "SERIALIZABLE, although"),
        ),
        (
            {"log_bin": "ON", "binlog_format": "STATEMENT"},
            ("isolation", "error", "nothing can be locked"),
        ),
        ({"log_bin": "ON", "binlog_format": "MIXED"}, ("isolation", "ok", "read committed")),
        ({}, ("keepalives", "ok", "after 60 s")),
        ({"wait_timeout": "28800"}, ("keepalives", "note", "only after 28800 s")),
        (
            {
                "wait_timeout": "28800",
                "tcp_keepalive_time": "60",
                "tcp_keepalive_interval": "10",
                "tcp_keepalive_probes": "6",
            },
            ("keepalives", "ok", "after 120 s"),
        ),
    ],
)
def test_what_holds_for_our_sessions(settings, expected) -> None:
    subject, level, words = expected

    [said] = [one for one in of_session({**WELL, **settings}) if one.subject == subject]

    assert said.level == level
    assert words in said.message


@pytest.mark.parametrize("level", ["SERIALIZABLE", "REPEATABLE READ"])
def test_the_servers_default_isolation_does_not_matter(found, server, theirs, level) -> None:
    server.run(f"SET GLOBAL TRANSACTION ISOLATION LEVEL {level}")
    try:
        assert found(theirs)["isolation"].level == "ok"
    finally:
        server.run("SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ")


@pytest.mark.parametrize(
    ("theirs", "words"), [(70.0, "is 50 s ahead of"), (3.0, "is 7 s behind"), (15.0, "agrees")]
)
def test_a_clock_counts_as_wrong_outside_of_the_time_that_asking_took(theirs, words) -> None:
    assert words in clock_finding(clock_ahead(theirs, before=10.0, after=20.0)).message
