"""Each finding of the doctor, provoked on a real server."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from servers.pgbouncer import PgBouncer
from servers.postgresql import shared_server

from lockfast.backends.postgresql._async import backend as aio
from lockfast.backends.postgresql._async.transport import AsyncPostgresqlTransport
from lockfast.backends.postgresql._sync import backend as threads
from lockfast.backends.postgresql._sync.transport import PostgresqlTransport
from lockfast.backends.postgresql.diagnostics import OLD_TRANSACTIONS, Rights, ServerFacts, findings
from lockfast.backends.postgresql.notify import unproven
from lockfast_challenge.servers.postgresql import PostgresqlServer


def test_a_server_that_is_well(diagnosed, server, user, tables) -> None:
    server.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables.door}, {tables.place} TO {user}")
    server.run(f"ALTER ROLE {user} SET idle_in_transaction_session_timeout = '10min'")
    server.run(f"ALTER ROLE {user} SET tcp_keepalives_idle = 60")
    server.run(f"ALTER ROLE {user} SET tcp_keepalives_interval = 10")

    found = diagnosed(server.url(user=user))

    assert {one.subject: one.level for one in found} == {
        "server": "ok",
        "pooler": "ok",
        "durability": "ok",
        "replication": "ok",
        "clock": "ok",
        "permissions": "ok",
        "isolation": "ok",
        "old snapshot": "ok",
        "forgotten transactions": "ok",
        "keepalives": "ok",
        "connections": "ok",
    }
    assert "is PostgreSQL 1" in found[0].message


# -- settings of a user --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("synchronous_commit = off", ("durability", "warning", "forgets the leases and tokens")),
        ("default_transaction_read_only = on", ("read only", "error", "nothing can be locked")),
        (
            "idle_in_transaction_session_timeout = 0",
            ("forgotten transactions", "note", "is never ended"),
        ),
        ("tcp_keepalives_idle = 7200", ("keepalives", "note", "notices only after 7")),
    ],
)
def test_a_setting_that_takes_something_away(finding, server, user, setting, expected) -> None:
    server.run(f"ALTER ROLE {user} SET {setting}")
    subject, level, words = expected

    found = finding(subject, server.url(user=user))

    assert found.level == level
    assert words in found.message
    assert found.remedy


@pytest.mark.parametrize(
    "setting", ["default_transaction_isolation = serializable", "idle_session_timeout = '60s'"]
)
def test_a_default_that_our_sessions_pin_takes_nothing_away(
    diagnosed, server, user, setting
) -> None:
    server.run(f"ALTER ROLE {user} SET {setting}")

    found = {one.subject: one.level for one in diagnosed(server.url(user=user))}

    assert found["isolation"] == "ok"
    assert "idle sessions" not in found


# -- what an operator does to the whole server ---------------------------------------------


def test_a_server_that_writes_nothing_to_its_disk(finding, tables) -> None:
    with PostgresqlServer(settings={"fsync": "off"}) as server:
        found = finding("durability", server.url())

    assert found.level == "error"
    assert "fsync is off" in found.message


def test_a_database_that_cannot_hold_every_letter(finding, server) -> None:
    server.run("CREATE DATABASE narrow ENCODING 'LATIN1' TEMPLATE template0")
    try:
        found = finding("encoding", server.url("narrow"))
    finally:
        server.run("DROP DATABASE narrow WITH (FORCE)")

    assert found.level == "warning"
    assert "LATIN1" in found.message


def test_hardly_a_connection_is_left(finding, server) -> None:
    [[most]] = server.run("SELECT current_setting('max_connections')::int")
    [[taken]] = server.run("SELECT sum(numbackends)::int FROM pg_stat_database")
    with ExitStack() as stack:
        for _ in range(most - taken - 6):
            stack.enter_context(server.connect())
        found = finding("connections")

    assert found.level == "warning"
    assert f"of {most} connections are left" in found.message


@pytest.mark.parametrize(("shift", "words"), [(-60.0, "60 s ahead"), (60.0, "60 s behind")])
def test_a_clock_that_differs_from_ours(finding, monkeypatch, shift, words) -> None:
    """The test shifts our clock instead of the server's, which makes the same difference."""
    moved = SimpleNamespace(time=lambda: time.time() + shift)
    for one in (aio, threads):
        monkeypatch.setattr(one, "time", moved)

    found = finding("clock")

    assert found.level == "warning"
    assert words in found.message


# -- old snapshots -------------------------------------------------------------------------

TRANSACTIONS = f"""
DO $$ BEGIN
    FOR i IN 1..{OLD_TRANSACTIONS} LOOP PERFORM txid_current(); COMMIT; END LOOP;
END $$
"""


def many_transactions(server: PostgresqlServer) -> None:
    with server.connect(options="-c synchronous_commit=off") as connection:
        connection.execute(TRANSACTIONS)


def test_a_transaction_that_looks_at_what_was_long_ago(finding, server, user) -> None:
    """Every user gets the finding, even if another user owns the transaction."""
    with server.connect(application_name="pg_dump") as other:
        pid = other.info.backend_pid
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        young = finding("old snapshot")
        many_transactions(server)

        old = finding("old snapshot")
        to_anybody = finding("old snapshot", server.url(user=user))

    assert young.level == "ok"
    assert old.level == to_anybody.level == "warning"
    assert "pg_dump looks at the database as it was" in old.message
    assert f"session {pid} of postgres" in to_anybody.message


def test_a_transaction_that_wrote_and_was_forgotten(finding, server) -> None:
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute("SELECT txid_current()")
        many_transactions(server)

        assert finding("old snapshot").level == "warning"


def test_one_in_another_database_does_no_harm(finding, server) -> None:
    with server.connect("template1") as other:
        other.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        other.execute("SELECT 1")
        many_transactions(server)

        assert finding("old snapshot").level == "ok"


def test_a_replication_slot_that_nobody_reads() -> None:
    """A slot may be forgotten, too. No slot here is that old, so the test makes up its facts."""
    facts = replace(WELL, snapshot=aio.Snapshot("replication slot old", 3_000_000, None))

    [found] = [one for one in findings(facts) if one.subject == "old snapshot"]

    assert found.level == "warning"
    assert "replication slot old looks" in found.message


# -- poolers -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pooler():
    with PgBouncer(shared_server(), size=3) as one:
        yield one


def test_a_pooler_in_transaction_mode(diagnosed, pooler) -> None:
    found = {one.subject: one for one in diagnosed(pooler.url())}

    assert found["pooler"].level == "warning"
    assert "no statement can be prepared" in found["pooler"].message
    assert "connections" not in found


def test_finding_out_about_a_pooler_may_take_all_the_time_there_is(
    finding, pooler, monkeypatch
) -> None:
    def silent(transport: Any, *_: object, **__: object) -> None:
        transport.ask = transport.send_all = (
            None  # the deadline has passed, so no request is answered any more
        )
        raise unproven(where=transport.where)

    for kind in (AsyncPostgresqlTransport, PostgresqlTransport):
        monkeypatch.setattr(kind, "subscribe", silent)

    assert finding("pooler", pooler.url()).level == "warning"


def test_what_a_client_has_learned_of_its_pooler_is_not_tried_again(finding, pooler) -> None:
    assert finding("pooler", pooler.url(), push=False).level == "warning"
    assert finding("pooler", pooler.url(), push=True).level == "ok"


def test_a_pooler_in_session_mode(finding) -> None:
    with PgBouncer(shared_server(), mode="session") as pooler:
        found = finding("pooler", pooler.url())

    assert found.level == "ok"
    assert "session mode" in found.message


def test_idle_sessions_that_are_ended_where_a_session_is_not_ours_to_keep(
    finding, pooler, server
) -> None:
    server.run("CREATE DATABASE hasty")
    try:
        server.run("ALTER DATABASE hasty SET idle_session_timeout = '60s'")
        found = finding("idle sessions", pooler.url("hasty"))
    finally:
        server.run("DROP DATABASE hasty WITH (FORCE)")

    assert found.level == "warning"
    assert "is 60 s" in found.message


def test_a_proxy_that_undoes_our_isolation() -> None:
    settings = {**WELL.settings, "transaction_isolation": "serializable"}

    found = findings(replace(WELL, settings=settings))

    assert [one.level for one in found if one.subject == "isolation"] == ["error"]


# -- version -------------------------------------------------------------------------------

WELL = ServerFacts(
    where="postgresql://there",
    version=110022,
    settings={"max_connections": "100"},
    is_pooled=False,
    push=None,
    is_standby=False,
    standbys=[],
    ahead=0.0,
    rights=Rights("me", "public", ("a", "b"), True, True, True, {"a": [], "b": []}),
    snapshot=None,
    connections=1,
)


def test_a_server_that_is_too_old() -> None:
    """No server that old is at hand, so the test makes up its facts."""
    [found] = [one for one in findings(WELL) if one.subject == "server"]

    assert found.level == "error"
    assert "PostgreSQL 11.22" in found.message
    assert "12 or newer" in found.remedy
