"""Sellers of a stock in a table, one for each library that has transactions.

A seller reads what is left and writes one less, in a transaction that it commits later. All sellers
have the same methods, which must be awaited; with a blocking library they run at once.
"""

from __future__ import annotations

import inspect
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import sqlalchemy
from servers import mariadb, postgresql
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

READ = "SELECT left_over FROM {table} WHERE item = 'lamp'"
WRITE = "UPDATE {table} SET left_over = {left} WHERE item = 'lamp'"


async def settled(value: Any) -> Any:
    """Return the value, awaited if it has to be."""
    return await value if inspect.isawaitable(value) else value


class Seller:
    """A seller that uses `execute`, `commit` and `rollback` of some object."""

    def __init__(self, target: Any, table: str) -> None:
        self.target = target
        self.table = table

    async def _run(self, statement: str) -> Any:
        return await settled(self.target.execute(statement))

    async def read(self) -> int:
        found = await self._run(READ.format(table=self.table))
        return int((await settled(found.fetchone()))[0])

    async def write(self, left: int) -> None:
        await self._run(WRITE.format(table=self.table, left=left))

    async def commit(self) -> None:
        await settled(self.target.commit())

    async def rollback(self) -> None:
        await settled(self.target.rollback())

    async def close(self) -> None:
        await settled(self.target.close())


class AlchemySeller(Seller):
    async def _run(self, statement: str) -> Any:
        return await settled(self.target.execute(text(statement)))


class CursorSeller(Seller):
    async def _run(self, statement: str) -> Any:
        cursor = self.target.cursor()
        cursor.execute(statement)
        return cursor


class Shop:
    """A table with ten lamps, and a function that creates a seller of some kind."""

    def __init__(self, table: str, look: Callable[[], int], hire: Callable[[], Any]) -> None:
        self.table = table
        self.left = look
        self._hire = hire

    async def seller(self) -> Seller:
        made: Seller = await settled(self._hire())
        return made


def _create(run: Callable[[str], Any]) -> str:
    table = f"stock_{os.urandom(4).hex()}"
    run(f"CREATE TABLE {table} (item VARCHAR(20) PRIMARY KEY, left_over INTEGER)")
    run(f"INSERT INTO {table} VALUES ('lamp', 10)")
    return table


@contextmanager
def opened(kind: str, directory: Path) -> Iterator[Shop]:
    """Yield a shop whose sellers are of that kind."""
    if kind == "pymysql":
        server = mariadb.shared_server()
        server.run("CREATE DATABASE IF NOT EXISTS test")
        run = lambda statement: server.run(statement, database="test")  # noqa: E731
    else:
        run = postgresql.shared_server().run
    table = _create(run)

    def look() -> int:
        return int(run(READ.format(table=table))[0][0])

    with _hiring(kind, table) as hire:
        yield Shop(table, look, hire)
    run(f"DROP TABLE {table}")


@contextmanager
def _hiring(kind: str, table: str) -> Iterator[Callable[[], Any]]:
    url = postgresql.shared_server().url()
    if kind == "pymysql":
        yield lambda: CursorSeller(mariadb.shared_server().connect("test", autocommit=False), table)
    elif kind == "psycopg":
        yield lambda: Seller(psycopg.connect(url), table)
    elif kind == "psycopg asyncio":

        async def connected() -> Seller:
            return Seller(await psycopg.AsyncConnection.connect(url), table)

        yield connected
    elif kind.endswith("asyncio"):
        lazy = create_async_engine(url.replace("://", "+psycopg://"), poolclass=NullPool)

        async def begun() -> Seller:
            if "session" in kind:
                return AlchemySeller(AsyncSession(lazy), table)
            connection: AsyncConnection = await lazy.connect()
            return AlchemySeller(connection, table)

        yield begun
    else:
        engine = sqlalchemy.create_engine(url.replace("://", "+psycopg://"), poolclass=NullPool)
        yield lambda: AlchemySeller(
            Session(engine) if "session" in kind else engine.connect(), table
        )
        engine.dispose()


def in_a_file(path: Path) -> sqlite3.Connection:
    """Return a connection to a stock of ten lamps in a file."""
    connection = sqlite3.connect(path, timeout=60)
    connection.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, left_over INTEGER)")
    connection.execute("INSERT INTO stock VALUES ('lamp', 10)")
    connection.commit()
    return connection


__all__ = ["Seller", "Shop", "in_a_file", "opened", "pymysql", "settled"]
