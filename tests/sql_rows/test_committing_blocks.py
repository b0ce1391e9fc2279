"""Transactions that end when a block is left, savepoints, and objects that have no transaction."""

from __future__ import annotations

import asyncio
import sqlite3

import psycopg
import pytest
import sqlalchemy
from sellers import in_a_file
from servers import postgresql
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from lockfast import AsyncLocks, ConfigurationError, LeaseLost, NotOwner
from lockfast.sql_rows import hold_until_commit

READ = "SELECT left_over FROM stock"


@pytest.fixture
def shop(tmp_path):
    connection = in_a_file(tmp_path / "shop.db")
    yield connection
    connection.close()


@pytest.mark.parametrize("tied", [False, True])
def test_sqlite_sells_two_of_ten_only_if_the_lock_outlives_the_commit(
    tied, shop, locks, others, tmp_path
):
    second = sqlite3.connect(tmp_path / "shop.db", timeout=60)

    def sell(connection):
        [left] = connection.execute(READ).fetchone()
        return f"UPDATE stock SET left_over = {left - 1}"

    with locks.lock("stock") as lease:
        block = hold_until_commit(lease, shop) if tied else shop
        block.__enter__()
        shop.execute(sell(shop))
    early = others.lock("stock").try_acquire()
    sale = sell(second) if early else ""
    block.__exit__(None, None, None)
    after = early or others.lock("stock").acquire(timeout=60)
    with second:
        second.execute(sale or sell(second))
    after.release()
    second.close()

    assert shop.execute(READ).fetchone() == (8 if tied else 9,)


def test_a_block_whose_lease_was_lost_rolls_back(shop, locks):
    def sell(lease):
        with hold_until_commit(lease, shop):
            shop.execute("UPDATE stock SET left_over = 0")
            locks.break_("stock")

    with pytest.raises(LeaseLost):
        sell(locks.lock("stock").acquire())

    assert shop.execute(READ).fetchone() == (10,)


def test_a_block_that_fails_rolls_back_and_frees_the_name(shop, locks, others):
    def fail(lease):
        with hold_until_commit(lease, shop):
            shop.execute("UPDATE stock SET left_over = 0")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(locks.lock("stock").acquire())

    assert shop.execute(READ).fetchone() == (10,)
    assert others.lock("stock").try_acquire() is not None


def test_a_block_that_is_never_entered_changes_nothing_and_says_so(shop, locks):
    """Dropping the block must not release the caller's own lease."""
    lease = locks.lock("stock").acquire()

    with pytest.warns(ResourceWarning, match="'stock'.* `with` statement"):
        hold_until_commit(lease, shop)

    lease.release()  # would raise if the lease had been released


def test_a_block_that_cannot_be_entered_changes_nothing(shop, locks):
    lease = locks.lock("stock").acquire()
    shop.close()

    with pytest.raises(sqlite3.ProgrammingError), hold_until_commit(lease, shop):
        pass

    lease.release()


def test_a_block_is_entered_while_the_lease_is_held(shop, locks):
    with locks.lock("stock") as lease:
        block = hold_until_commit(lease, shop)

    with pytest.raises(NotOwner), block:
        pass


def test_a_connection_whose_own_block_would_not_commit_is_refused(locks):
    """Since Python 3.12, a sqlite3 block does not commit if the connection's `autocommit` is on."""

    class Autocommitting(sqlite3.Connection):
        autocommit = True

    lease = locks.lock("stock").acquire()
    connection = sqlite3.connect(":memory:", factory=Autocommitting)

    with pytest.raises(ConfigurationError, match="autocommit=True"):
        hold_until_commit(lease, connection)

    lease.release()
    connection.close()


def test_psycopgs_own_transaction_ends_with_its_block(locks, others):
    with psycopg.connect(postgresql.shared_server().url(), autocommit=True) as connection:
        hold_until_commit(locks.lock("stock").acquire(), connection)
        with connection.transaction():
            with connection.transaction():
                connection.execute("SELECT 1")
            assert others.lock("stock").try_acquire() is None
        assert others.lock("stock").try_acquire() is not None


def test_psycopgs_own_transaction_ends_with_its_block_in_asyncio(url):
    async def scene():
        server = postgresql.shared_server().url()
        async with (
            AsyncLocks(url, request_timeout=30) as locks,
            await psycopg.AsyncConnection.connect(server, autocommit=True) as connection,
        ):
            lease = await locks.lock("stock").acquire()
            hold_until_commit(lease, connection)
            async with connection.transaction():
                await connection.execute("SELECT 1")
                assert lease.is_trusted
            return lease.is_trusted

    assert asyncio.run(scene()) is False


def test_psycopgs_own_transaction_rolls_back_when_the_lease_was_lost(locks):
    with psycopg.connect(postgresql.shared_server().url(), autocommit=True) as connection:
        connection.execute("CREATE TEMPORARY TABLE mine (n INTEGER)")
        hold_until_commit(locks.lock("stock").acquire(), connection)

        def write():
            with connection.transaction():
                connection.execute("INSERT INTO mine VALUES (1)")
                locks.break_("stock")

        with pytest.raises(LeaseLost):
            write()
        assert connection.execute("SELECT * FROM mine").fetchall() == []


def test_a_savepoint_is_not_the_end(shop, locks, others, tmp_path):
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db", poolclass=NullPool)
    with Session(engine) as session:
        hold_until_commit(locks.lock("stock").acquire(), session)
        with session.begin_nested():
            session.execute(text("UPDATE stock SET left_over = 5"))
        assert others.lock("stock").try_acquire() is None
        session.commit()
    assert others.lock("stock").try_acquire() is not None


def test_a_refused_commit_of_a_connection_leaves_nothing_in_it(shop, locks, tmp_path):
    """A caller that catches the error and goes on must not commit the change later."""
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db", poolclass=NullPool)
    with engine.connect() as connection:
        hold_until_commit(locks.lock("stock").acquire(), connection)
        connection.execute(text("UPDATE stock SET left_over = 5"))
        locks.break_("stock")
        with pytest.raises(LeaseLost):
            connection.commit()
        connection.rollback()  # as SQLAlchemy asks for
        connection.execute(text("UPDATE stock SET item = 'chair'"))
        connection.commit()

    assert shop.execute("SELECT item, left_over FROM stock").fetchone() == ("chair", 10)


def test_a_session_that_begins_nothing_by_itself_has_to_begin_first(shop, locks, others, tmp_path):
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/shop.db", poolclass=NullPool)
    lease = locks.lock("stock").acquire()
    with Session(engine, autobegin=False) as session:
        with pytest.raises(ConfigurationError, match="begin it first"):
            hold_until_commit(lease, session)
        assert lease.is_trusted
        with session.begin():
            hold_until_commit(lease, session)
        assert others.lock("stock").try_acquire() is not None


def test_a_connection_that_begins_by_a_statement_has_to_begin_first_in_asyncio(url):
    """The statement that begins the transaction cannot be awaited in that call."""

    async def scene():
        server = postgresql.shared_server().url().replace("://", "+psycopg://")
        engine = create_async_engine(server, poolclass=NullPool)

        @sqlalchemy.event.listens_for(engine.sync_engine, "begin")
        def ask(connection):
            connection.exec_driver_sql("SELECT 1")

        async with (
            AsyncLocks(url, request_timeout=30) as locks,
            engine.connect() as connection,
        ):
            lease = await locks.lock("stock").acquire()
            with pytest.raises(ConfigurationError, match="begin it first"):
                hold_until_commit(lease, connection)
            was_kept = lease.is_trusted
            async with connection.begin():
                hold_until_commit(lease, connection)
            return was_kept, lease.is_trusted

    assert asyncio.run(scene()) == (True, False)


def test_a_two_phase_transaction_of_a_connection_is_refused(locks):
    """A two-phase transaction ends with other events, so the lease would not be checked."""
    lease = locks.lock("stock").acquire()
    server = postgresql.shared_server().url().replace("://", "+psycopg://")
    engine = sqlalchemy.create_engine(server, poolclass=NullPool)
    with (
        engine.connect() as connection,
        connection.begin_twophase(),
        pytest.raises(ConfigurationError, match="two-phase"),
    ):
        hold_until_commit(lease, connection)

    lease.release()


def test_what_is_no_transaction_is_refused(locks):
    lease = locks.lock("stock").acquire()

    with pytest.raises(ConfigurationError, match=r"builtins\.int is no transaction"):
        hold_until_commit(lease, 5)
    with pytest.raises(TypeError, match="lease is what"):
        hold_until_commit("stock", 5)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="do not go together"):
        hold_until_commit(lease, AsyncSession())
    with (
        psycopg.connect(postgresql.shared_server().url(), autocommit=True) as connection,
        connection.transaction(),
        pytest.raises(ConfigurationError, match="cannot be seen"),
    ):
        hold_until_commit(lease, connection)

    assert lease.is_trusted  # the refusal has changed nothing


def test_a_lease_that_is_over_is_refused(shop, locks):
    lease = locks.lock("stock").acquire()
    locks.break_("stock")

    with pytest.raises(LeaseLost):
        hold_until_commit(lease, shop)
