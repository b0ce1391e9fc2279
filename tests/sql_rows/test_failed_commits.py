"""A commit that fails may leave the transaction open: the next commit then needs the lease too."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
import sqlalchemy
from sellers import in_a_file
from servers import mariadb, postgresql
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from lockfast import AsyncLease, AsyncLocks, Lease
from lockfast.sql_rows import hold_until_commit


def by_psycopg():
    return psycopg.connect(postgresql.shared_server().url())


def by_pymysql():
    return mariadb.shared_server().connect("mysql", autocommit=False)


def by_alchemy():
    url = postgresql.shared_server().url().replace("://", "+psycopg://")
    return sqlalchemy.create_engine(url, poolclass=NullPool).connect()


def terminate(pid: int) -> None:
    postgresql.shared_server().run(f"SELECT pg_terminate_backend({pid})")


# -- drivers ---------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["commit", "rollback"])
def test_what_psycopg_refuses_inside_its_block_ends_nothing(verb, locks, others):
    with psycopg.connect(postgresql.shared_server().url(), autocommit=True) as connection:
        hold_until_commit(locks.lock("stock").acquire(), connection)
        with connection.transaction():
            with pytest.raises(psycopg.ProgrammingError):
                getattr(connection, verb)()
            held = others.lock("stock").try_acquire()
        assert held is None
        assert others.lock("stock").try_acquire() is not None


@pytest.mark.parametrize("verb", ["commit", "rollback"])
@pytest.mark.parametrize("connect", [by_psycopg, by_pymysql])
def test_one_that_was_interrupted_before_it_was_sent_ends_nothing(
    connect, verb, locks, others, monkeypatch
):
    def interrupt(_connection):
        raise KeyboardInterrupt

    connection = connect()
    hold_until_commit(locks.lock("stock").acquire(), connection)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN" if connect is by_pymysql else "SELECT 1")
    with monkeypatch.context() as patched:
        patched.setattr(type(connection), verb, interrupt)
        with pytest.raises(KeyboardInterrupt):
            getattr(connection, verb)()
    held = others.lock("stock").try_acquire()
    connection.commit()
    connection.close()

    assert held is None
    assert others.lock("stock").try_acquire() is not None


def test_a_commit_that_was_cancelled_before_it_was_sent_ends_nothing(url):
    """The commit waits for the connection, which another task is using."""

    async def scene():
        server = postgresql.shared_server().url()
        async with (
            AsyncLocks(url, request_timeout=30) as locks,
            await psycopg.AsyncConnection.connect(server) as connection,
        ):
            lease = await locks.lock("stock").acquire()
            hold_until_commit(lease, connection)
            await connection.execute("SELECT 1")
            async with connection.lock:
                commit = asyncio.create_task(connection.commit())
                await asyncio.sleep(0)
                commit.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await commit
            was_kept = lease.is_trusted
            await connection.commit()
            return was_kept, lease.is_trusted

    assert asyncio.run(scene()) == (True, False)


def test_a_connection_that_broke_before_the_commit_has_nothing_left_to_commit(locks, others):
    """The driver refuses the commit and never sends it."""
    connection = by_psycopg()
    hold_until_commit(locks.lock("stock").acquire(), connection)
    connection.execute("SELECT 1")
    terminate(connection.info.backend_pid)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")

    with pytest.raises(psycopg.OperationalError):
        connection.commit()

    assert others.lock("stock").try_acquire() is not None


# -- SQLAlchemy ------------------------------------------------------------------------


@pytest.fixture
def bills(tmp_path):
    """An engine with a foreign key that is checked at the commit, which therefore fails."""
    in_a_file(tmp_path / "shop.db").close()
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db", poolclass=NullPool)

    @sqlalchemy.event.listens_for(engine, "connect")
    def check(connection, _record):
        connection.execute("PRAGMA foreign_keys = ON")

    with engine.begin() as connection:
        connection.execute(
            text("CREATE TABLE bill (item TEXT REFERENCES stock DEFERRABLE INITIALLY DEFERRED)")
        )
    return engine


def test_a_connection_whose_commit_failed_keeps_nothing_for_a_commit_without_the_lease(
    bills, locks, others
):
    """SQLAlchemy's own rollback after the failed commit does not reach the driver."""
    with bills.connect() as connection:
        hold_until_commit(locks.lock("stock").acquire(), connection)
        connection.execute(text("UPDATE stock SET left_over = 5"))
        connection.execute(text("INSERT INTO bill VALUES ('chair')"))
        with pytest.raises(sqlalchemy.exc.IntegrityError):  # SQLAlchemy's error, not the driver's
            connection.commit()
        is_free = others.lock("stock").try_acquire() is not None
        connection.rollback()
        connection.execute(text("INSERT INTO stock VALUES ('chair', 1)"))
        connection.commit()
        left = connection.execute(text("SELECT left_over FROM stock ORDER BY item")).all()

    assert is_free
    assert left == [(1,), (10,)]


def test_a_session_whose_commit_failed_holds_until_its_rollback(bills, locks, others):
    with Session(bills) as session:
        hold_until_commit(locks.lock("stock").acquire(), session)
        session.execute(text("INSERT INTO bill VALUES ('chair')"))
        with pytest.raises(sqlalchemy.exc.IntegrityError):
            session.commit()
        held = others.lock("stock").try_acquire()
        session.rollback()
        assert held is None
        assert others.lock("stock").try_acquire() is not None


def test_a_failing_commit_raises_sqlalchemys_error_in_asyncio_too(url):
    async def scene():
        server = postgresql.shared_server().url().replace("://", "+psycopg://")
        engine = create_async_engine(server, poolclass=NullPool)
        async with AsyncLocks(url, request_timeout=30) as locks, engine.connect() as connection:
            lease = await locks.lock("stock").acquire()
            unique = "n INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED"
            await connection.execute(text(f"CREATE TEMPORARY TABLE bill ({unique})"))
            hold_until_commit(lease, connection)
            await connection.execute(text("INSERT INTO bill VALUES (1), (1)"))
            with pytest.raises(sqlalchemy.exc.IntegrityError):
                await connection.commit()
            return lease.is_trusted

    assert asyncio.run(scene()) is False


@pytest.mark.parametrize("verb", ["commit", "rollback"])
def test_sqlalchemys_connection_that_broke_before_has_nothing_left_to_commit(verb, locks, others):
    with by_alchemy() as connection:
        hold_until_commit(locks.lock("stock").acquire(), connection)
        terminate(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())
        with pytest.raises(sqlalchemy.exc.OperationalError):
            connection.execute(text("SELECT 1"))
        if verb == "commit":
            with pytest.raises(sqlalchemy.exc.PendingRollbackError):
                connection.commit()
        connection.rollback()

        assert others.lock("stock").try_acquire() is not None


# -- several leases --------------------------------------------------------------------


def test_an_interrupt_in_one_release_leaves_none_of_the_others_tied(locks, others, monkeypatch):
    release, struck = Lease.release, []

    def interrupted_once(lease):
        if not struck:
            struck.append(lease.name)
            raise KeyboardInterrupt
        release(lease)

    with by_psycopg() as connection:
        for name in "abc":
            hold_until_commit(locks.lock(name).acquire(), connection)
        with monkeypatch.context() as patched:
            patched.setattr(Lease, "release", interrupted_once)
            with pytest.raises(KeyboardInterrupt):
                connection.commit()
        rest = [others.lock(name).try_acquire() for name in "abc" if name not in struck]

    assert None not in rest
    assert len(rest) == 2


def test_a_cancellation_in_one_release_leaves_none_of_the_others_tied(url, monkeypatch):
    release = AsyncLease.release

    async def cancelled(lease):
        asyncio.current_task().cancel()
        await release(lease)

    async def scene():
        async with (
            AsyncLocks(url, request_timeout=30) as locks,
            await psycopg.AsyncConnection.connect(postgresql.shared_server().url()) as connection,
        ):
            leases = [await locks.lock(name).acquire() for name in "abc"]
            for lease in leases:
                hold_until_commit(lease, connection)
            with monkeypatch.context() as patched:
                patched.setattr(AsyncLease, "release", cancelled)
                commit = asyncio.create_task(connection.commit())
                with pytest.raises(asyncio.CancelledError):
                    await commit
            return [lease.is_trusted for lease in leases]

    assert asyncio.run(scene()) == [False, False, False]
