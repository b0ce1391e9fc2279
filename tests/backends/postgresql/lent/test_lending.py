"""Locks over an application's connections work, and leave the connections as they were."""

from __future__ import annotations

import psycopg
import psycopg_pool
import pytest
from backends.sql.lent import PATIENT, LendingLaws
from both_flavours import number_waiting
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import create_async_engine

from lockfast import BackendUnavailable
from lockfast_challenge.processes import eventually

SESSION = """
SELECT name, setting FROM pg_settings UNION ALL
SELECT 'prepared', name FROM pg_prepared_statements UNION ALL
SELECT 'listens', pg_listening_channels() ORDER BY 1, 2
"""


class TestLending(LendingLaws):
    """The tests for every kind of lender."""


def test_where_it_leads_is_told_without_a_password(lend, flavour, server):
    for kind in ("pool", "engine", "connection"):
        locks = flavour.adopted(lend(kind).client)

        assert locks.location == f"postgresql://{server.address}/postgres"


def test_a_password_is_not_told(flavour, server):
    url = server.url(password="s3cret")
    make = create_engine if flavour.name == "sync" else create_async_engine
    is_sync = flavour.name == "sync"
    kind = psycopg_pool.ConnectionPool if is_sync else psycopg_pool.AsyncConnectionPool

    for client in (make(url.replace(":", "+psycopg:", 1)), kind(url, open=False)):
        assert "s3cret" not in repr(flavour.adopted(client))


def test_a_connection_comes_back_as_it_was(flavour, lend, ask, name):
    """We leave the connection's session, transaction and modes as they were."""
    lending = lend("connection")
    connection = lending.client
    ask(connection, "SET application_name = 'shop'")
    ask(connection, "SET statement_timeout = '17s'")
    flavour.call(connection.commit)
    before = ask(connection, SESSION)
    flavour.call(connection.commit)
    locks = flavour.adopted(connection, **PATIENT)
    lease = locks.lock(name).acquire()
    waiting = flavour.start(locks.lock(name).acquire, timeout=60)
    eventually(lambda: number_waiting(locks), what="it waits")
    lease.release()
    waiting.result().release()

    eventually(lending.is_whole, what="the connection is back")
    found = connection.pgconn

    assert found.pipeline_status == psycopg.pq.PipelineStatus.OFF
    assert found.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert ask(connection, SESSION) == before
    assert not connection.autocommit


def test_the_one_that_listened_hears_no_channel_of_ours_any_more(flavour, lend, ask, held):
    lending = lend("pool", max_size=2)
    locks = flavour.adopted(lending.client, **PATIENT)
    waiting = flavour.start(locks.lock(held.name).acquire, timeout=60)
    inner = getattr(locks, "_inner", locks)
    eventually(lambda: inner._client.backend._inbox.push, what="it listens")
    eventually(lambda: lending.lent() == 1, what="one is kept, to listen on")
    held.release()
    waiting.result().release()

    (locks.close if flavour.name == "sync" else locks.aclose)()

    assert lending.is_whole()
    for _ in range(2):
        connection = flavour.call(lending.client.getconn)
        assert ask(connection, "SELECT pg_listening_channels()") == []
        flavour.call(connection.rollback)
        flavour.call(lending.client.putconn, connection)


@pytest.mark.parametrize("kind", ["pool", "connection"])
def test_a_lender_of_one_cannot_push_and_says_so(flavour, lend, held, kind, caplog):
    lending = lend(kind, **({"max_size": 1} if kind == "pool" else {}))
    locks = flavour.adopted(lending.client, **PATIENT)
    assert not locks.capabilities.push_wakeup
    waiting = flavour.start(locks.lock(held.name).acquire, timeout=60)
    eventually(lambda: "cannot work and listen" in caplog.text, what="it is told in the log")
    held.release()
    waiting.result().release()

    told = {one.subject: one for one in locks.diagnose()}

    assert told["one connection"].level == "warning"
    assert "give them a pool" in told["one connection"].remedy


def test_a_lender_of_more_is_not_told_so(flavour, lend):
    locks = flavour.adopted(lend("pool").client, **PATIENT)

    assert "one connection" not in {one.subject for one in locks.diagnose()}


def test_what_the_application_listens_to_is_not_lost(flavour, lend, ask, server, name):
    lending = lend("connection", autocommit=True)
    heard = []
    lending.client.add_notify_handler(heard.append)
    ask(lending.client, "LISTEN orders")
    locks = flavour.adopted(lending.client, **PATIENT)
    server.run("NOTIFY orders, 'four'")

    locks.lock(name).acquire().release()

    eventually(lambda: [one.payload for one in heard] == ["four"], what="it is told")
    assert ask(lending.client, "SELECT pg_listening_channels()") == [("orders",)]


def test_a_transaction_of_the_applications_is_neither_joined_nor_committed(
    flavour, lend, ask, name
):
    """The error says that a transaction is open, and the transaction goes on undisturbed."""
    connection = lend("connection").client
    locks = flavour.adopted(connection, **PATIENT)
    ask(connection, "CREATE TEMPORARY TABLE cart (k int)")

    with pytest.raises(BackendUnavailable, match="in the middle of a transaction"):
        locks.lock(name).acquire(timeout=10)

    assert ask(connection, "SELECT * FROM cart") == []
    flavour.call(connection.rollback)
    with pytest.raises(psycopg.errors.UndefinedTable):
        ask(connection, "SELECT * FROM cart")
    flavour.call(connection.rollback)
    locks.lock(name).acquire(timeout=10).release()


def test_a_connection_in_pipeline_mode_is_refused(flavour, lend, name):
    connection = lend("connection").client
    locks = flavour.adopted(connection, **PATIENT)
    connection.pgconn.enter_pipeline_mode()

    with pytest.raises(BackendUnavailable, match="in pipeline mode"):
        locks.lock(name).acquire(timeout=10)

    connection.pgconn.exit_pipeline_mode()
    locks.lock(name).acquire(timeout=10).release()


def test_a_connection_of_another_encoding_is_refused(flavour, lend, name):
    locks = flavour.adopted(lend("connection", client_encoding="latin1").client, **PATIENT)

    with pytest.raises(ValueError, match="client_encoding is LATIN1"):
        locks.lock(name).acquire(timeout=10)
