"""The databases that contain the rows: a file, and servers that all tests share."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import asyncmy
import psycopg
import pymysql
import sqlalchemy
from servers import mariadb, mysql, postgresql
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool
from stock import LONG

NAMES = ("sqlite", "postgresql", "mariadb")
WAYS = (
    *(*NAMES, "mysql"),
    *("postgresql asyncio", "mariadb asyncio", "mysql asyncio"),
    *("sqlalchemy sqlite", "sqlalchemy postgresql", "sqlalchemy mariadb"),
    *("sqlalchemy postgresql asyncio", "sqlalchemy mariadb asyncio"),
)
"""Each database with each library through which it is used."""

SERVERS = {"mariadb": mariadb.shared_server, "mysql": mysql.shared_server}

TYPES = {"sqlite": ("INTEGER", "REAL"), "postgresql": ("BIGINT", "DOUBLE PRECISION")}


class Database:
    """One database, and how to connect to it; each test has its own table."""

    def __init__(self, way: str, directory: Path) -> None:
        self.way = way
        self.name = next(one for one in (*NAMES, "mysql") if one in way)
        self.is_asyncio = way.endswith("asyncio")
        self._path = directory / "rows.db"
        self._engine: Any = None
        self.whole, self.real = TYPES.get(self.name, ("BIGINT", "DOUBLE"))
        if self.name in SERVERS:
            SERVERS[self.name]().run("CREATE DATABASE IF NOT EXISTS test")

    def table(self, columns: str) -> str:
        """Create a table, and return its name."""
        name = f"t_{os.urandom(5).hex()}"
        self.run(f"CREATE TABLE {name} ({columns.format(whole=self.whole, real=self.real)})")
        return name

    def run(self, statement: str) -> list[Any]:
        """Return the rows of a statement, which is run on a new connection."""
        connection = connected(self.name, self.address())
        cursor = connection.cursor()
        cursor.execute(statement)
        rows = list(cursor.fetchall()) if cursor.description else []
        connection.commit()
        connection.close()
        return rows

    def address(self) -> str:
        """Return the address from which `connected` makes a connection, in any process."""
        if self.name == "sqlite":
            return str(self._path)
        if self.name == "postgresql":
            return postgresql.shared_server().url()
        return str(SERVERS[self.name]().port)

    def connect(self) -> Any:
        """Return a new connection, or an awaitable of one in asyncio."""
        if "sqlalchemy" in self.way:
            return self._opened_engine().connect()
        if self.way == "postgresql asyncio":
            return psycopg.AsyncConnection.connect(self.address())
        if self.is_asyncio:
            return asyncmy.connect(**_place(self.address()))
        return connected(self.name, self.address())

    def _opened_engine(self) -> Any:
        if self._engine is None:
            make = create_async_engine if self.is_asyncio else sqlalchemy.create_engine
            self._engine = make(self._engine_url(), poolclass=NullPool)
        return self._engine

    def _engine_url(self) -> str:
        if self.name == "sqlite":
            return f"sqlite:///{self._path}?timeout={LONG:g}"
        if self.name == "postgresql":
            return self.address().replace("://", "+psycopg://")
        driver = "asyncmy" if self.is_asyncio else "pymysql"
        return f"mysql+{driver}://root@127.0.0.1:{self.address()}/test"


def connected(name: str, address: str) -> Any:
    """Return a blocking connection to a database, through its driver."""
    if name == "sqlite":
        return sqlite3.connect(address, timeout=LONG)
    if name == "postgresql":
        return psycopg.connect(address)
    return pymysql.connect(**_place(address))


def _place(port: str) -> dict[str, Any]:
    return {"host": "127.0.0.1", "port": int(port), "user": "root", "database": "test"}
