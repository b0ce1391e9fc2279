"""What MariaDB and MySQL servers have in common: the options that both know, and the protocol."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import pymysql

from lockfast.challenge.servers.starting import Server

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


class MysqlCompatibleServer(Server):
    """One server with a root who has no password; what was committed outlives its process."""

    scheme = "mysql"
    """Of its URLs."""

    small: ClassVar[Sequence[str]] = ()
    """Options that keep memory and disk low, for the first data as well as for a server."""

    def __init__(self, *options: str) -> None:
        super().__init__()
        self.options = options

    @classmethod
    def program(cls) -> Sequence[str]:
        """Return the program and what it needs to know to run at all."""
        raise NotImplementedError

    @staticmethod
    def in_folder(program: Path) -> Sequence[str]:
        """Return a downloaded server and where its files are.

        It runs as root where we are root: another account may not enter the clone it is in.
        """
        is_root = ["--user=root"] if os.geteuid() == 0 else []
        return [str(program), "--no-defaults", f"--basedir={program.parents[1]}/root/usr", *is_root]

    def command(self) -> list[str]:
        """Return what is run."""
        return [
            *(*self.program(), f"--datadir={self.data}", f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.directory / 'socket'}"),
            *(f"--pid-file={self.directory / 'pid'}", "--skip-log-bin", *self.small),
            # Of its own: one that starts deletes what another has for the moment in a shared one.
            f"--tmpdir={self.directory}",
            # What a commit costs is on trial, and what survives a crash.
            "--innodb-flush-log-at-trx-commit=1",
            *self.options,
        ]

    def url(self, database: str = "test", *, user: str = "root", password: str = "") -> str:
        """Return the URL of a database on it."""
        credentials = f"{user}:{password}" if password else user
        return f"{self.scheme}://{credentials}@{self.address}/{database}"

    def serves(self) -> bool:
        """Whether it lets root in."""
        try:
            self.connect().close()
        except pymysql.OperationalError:
            return False
        return True

    def connect(self, database: str = "", **options: Any) -> pymysql.Connection[Any]:
        """Return a plain connection, each of whose statements is committed at once."""
        where = {"host": "127.0.0.1", "port": self.port, "user": "root", "autocommit": True}
        # Else all authorities of the system are read for each, 27 ms of computing, and none asked.
        plain = {"database": database or None, "ssl_disabled": True}
        return pymysql.connect(**{**where, **plain, **options})

    def run(self, statement: str, *values: object, database: str = "") -> tuple[Any, ...]:
        """Return the rows of one statement, on a connection of its own."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return tuple(cursor.fetchall())
