"""Which clients lend connections to a SQL store, and the errors for other clients."""

from __future__ import annotations

import types

import asyncmy.pool
import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import StaticPool

from lockfast import AsyncLocks, ConfigurationError, Locks

PG, MY = "postgresql+psycopg://127.0.0.1/shop", "mysql+pymysql://127.0.0.1/shop"


def of_package(package: str) -> object:
    """Return an object whose class is from that package."""
    return type("Connection", (), {"__module__": f"{package}.connections"})()


def refused(client: object, kind: type = Locks) -> str:
    with pytest.raises(ConfigurationError) as told:
        kind.from_client(client)
    return str(told.value)


@pytest.mark.parametrize("package", ["psycopg2", "asyncpg", "aiopg", "pg8000"])
def test_other_drivers_of_postgresql_are_shown_the_way(package):
    told = refused(of_package(package))

    assert told.startswith(f"{package}.connections.Connection is of another driver")
    assert told.endswith("connect with psycopg 3, or give the locks the URL")


@pytest.mark.parametrize("package", ["MySQLdb", "aiomysql", "mariadb", "mysql"])
def test_other_drivers_of_mysql_are_shown_the_way(package):
    assert "connect with PyMySQL, in asyncio with asyncmy" in refused(of_package(package))


def test_an_engine_with_another_driver_is_shown_the_way():
    module = types.SimpleNamespace(paramstyle="format", __version__="1.31.2")
    engine = sqlalchemy.create_engine("postgresql+pg8000://127.0.0.1/shop", module=module)

    told = refused(engine)

    assert "connects by pg8000" in told
    assert "postgresql+psycopg://, or give the locks the URL" in told


def test_an_engine_of_the_other_flavour_is_refused_by_name():
    assert "lockfast.Locks.from_client" in refused(sqlalchemy.create_engine(PG), AsyncLocks)
    assert "lockfast.AsyncLocks.from_client" in refused(create_async_engine(PG))
    my = create_async_engine("mysql+asyncmy://127.0.0.1/shop")
    assert "lockfast.AsyncLocks.from_client" in refused(my)


def test_an_engine_without_its_asyncio_is_told_which_driver_it_needs():
    engine = create_async_engine("mysql+asyncmy://127.0.0.1/shop").sync_engine

    assert "mysql+pymysql://" in refused(engine)


def test_a_pool_of_the_other_flavour_is_refused_by_name():
    with psycopg_pool.ConnectionPool("host=127.0.0.1", open=False) as pool:
        assert "lockfast.Locks.from_client" in refused(pool, AsyncLocks)


def test_an_engine_that_lends_one_connection_to_all_at_once_is_refused():
    engine = sqlalchemy.create_engine(PG, poolclass=StaticPool)

    assert "StaticPool" in refused(engine)


def test_what_came_from_an_engine_is_not_the_engine():
    engine = sqlalchemy.create_engine(MY)

    assert "give the engine" in refused(sqlalchemy.Connection(engine, connection=object()))
    assert "engines of SQLAlchemy" in refused(Session(engine))


def test_an_engine_of_another_database_is_refused_with_what_is_accepted():
    assert "engines of SQLAlchemy with postgresql" in refused(sqlalchemy.create_engine("sqlite://"))


def test_what_is_neither_connection_nor_pool_is_refused():
    for client in (psycopg.adapters, psycopg.Xid.from_string("x")):
        assert "give a connection or a pool of psycopg's" in refused(client)
    pool = asyncmy.pool.Pool.__new__(asyncmy.pool.Pool)
    assert "give a connection of PyMySQL's" in refused(pool, AsyncLocks)


@pytest.mark.parametrize("url", [PG, MY])
def test_options_of_the_tables_may_be_given_and_no_others(url):
    engine = sqlalchemy.create_engine(url)

    Locks.from_client(engine, table="shop_locks", connections=2).close()
    with pytest.raises(ValueError, match="password"):
        Locks.from_client(engine, password="s3cret")
