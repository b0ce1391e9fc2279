"""Real MariaDB servers. It refuses to be run by root, and becomes `daemon` then."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, ClassVar

import pymysql

from holdfast.challenge.servers.starting import Server, run_as

if TYPE_CHECKING:
    from pathlib import Path

SMALL = (
    # Not a hundred megabytes of log for each server.
    *("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M", "--key-buffer-size=1M"),
    *("--performance-schema=OFF", "--skip-log-bin"),
)

SYSTEM_TABLES = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data")
"""What `mariadb-install-db` lets the server read, but for the help texts. That script itself
needs a program of the full package, which would also bring a daemon."""

BEGINNING = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"


class MariadbServer(Server):
    """One server; what was committed outlives its process."""

    kind = "mariadb"
    packages: ClassVar[dict[str, str]] = {"mariadbd": "mariadb-server-core"}
    account = "daemon"

    def __init__(self, *options: str) -> None:
        super().__init__()
        self.options = options

    @classmethod
    def build(cls, data: Path) -> None:
        """Make a data directory, with a root who has no password."""
        files = " ".join(f"/usr/share/mysql/{one}.sql" for one in SYSTEM_TABLES)
        server = shlex.join(
            [
                *("mariadbd", "--no-defaults", "--bootstrap", f"--datadir={data}"),
                *(f"--tmpdir={data}", "--enforce-storage-engine=", *SMALL),
            ]
        )
        say = f"{{ printf %s {shlex.quote(BEGINNING)}; cat {files}; }}"
        run_as(cls.account, "sh", "-c", f"mkdir {data} && {say} | {server}")

    def url(self, database: str = "test", *, user: str = "root", password: str = "") -> str:
        """Return the URL of a database on it."""
        credentials = f"{user}:{password}" if password else user
        return f"mariadb://{credentials}@{self.address}/{database}"

    def command(self) -> list[str]:
        """Return what is run."""
        return [
            *("mariadbd", "--no-defaults", f"--datadir={self.data}", f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.directory / 'socket'}"),
            *(f"--pid-file={self.directory / 'pid'}", "--skip-name-resolve", *SMALL),
            # Of its own: one that starts deletes what another has for the moment in a shared one.
            f"--tmpdir={self.directory}",
            # What a commit costs is on trial, and what survives a crash.
            "--innodb-flush-log-at-trx-commit=1",
            *self.options,
        ]

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
