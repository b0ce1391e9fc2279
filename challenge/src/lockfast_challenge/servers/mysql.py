"""Real MySQL and MariaDB servers."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pymysql

from lockfast_challenge.servers.server import CannotStart, Server, downloaded, run_as
from lockfast_challenge.servers.shifted_clock import ShiftedClock

if TYPE_CHECKING:
    from collections.abc import Sequence


# Common to MariaDB and MySQL servers: the options that both accept, and the protocol.


class MysqlCompatibleServer(Server):
    """One server, whose root user has no password; committed data outlive the process."""

    scheme = "mysql"
    """The scheme of the server's URLs."""

    small: ClassVar[Sequence[str]] = ()
    """Options that save memory and disk, both for building the initial data and for a server."""

    def __init__(self, *options: str) -> None:
        super().__init__()
        self.options = options

    @classmethod
    def program(cls) -> Sequence[str]:
        """Return the program, with the options without which it does not run at all."""
        raise NotImplementedError

    @staticmethod
    def in_folder(program: Path) -> Sequence[str]:
        """Return the command of a downloaded server, with the location of its files.

        If we are root, the server runs as root too, because another account may not be able to
        enter the checkout.
        """
        is_root = ["--user=root"] if os.geteuid() == 0 else []
        return [str(program), "--no-defaults", f"--basedir={program.parents[1]}/root/usr", *is_root]

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            *(*self.program(), f"--datadir={self.data}", f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.directory / 'socket'}"),
            *(f"--pid-file={self.directory / 'pid'}", "--skip-log-bin", *self.small),
            # Each server has its own directory, because a starting server deletes the temporary
            # files of other servers in the same directory.
            f"--tmpdir={self.directory}",
            # The cost of a commit and the data that survive a crash are under test.
            "--innodb-flush-log-at-trx-commit=1",
            *self.options,
        ]

    def url(self, database: str = "test", *, user: str = "root", password: str = "") -> str:
        """Return the URL of a database on this server."""
        credentials = f"{user}:{password}" if password else user
        return f"{self.scheme}://{credentials}@{self.address}/{database}"

    def serves(self) -> bool:
        """Whether root can log in."""
        try:
            self.connect().close()
        except pymysql.OperationalError:
            return False
        return True

    def connect(self, database: str = "", **options: Any) -> pymysql.Connection[Any]:
        """Return a plain connection in autocommit mode."""
        where = {"host": "127.0.0.1", "port": self.port, "user": "root", "autocommit": True}
        # Without `ssl_disabled` each connection would load all CA certificates of the system, which
        # takes 27 ms of CPU time, and use none of them.
        plain = {"database": database or None, "ssl_disabled": True}
        return pymysql.connect(**{**where, **plain, **options})

    def run(self, statement: str, *values: object, database: str = "") -> tuple[Any, ...]:
        """Return the rows of one statement, run on a new connection."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return tuple(cursor.fetchall())


# MariaDB refuses to run as root; if we are root, the server runs as the account `daemon`.

SYSTEM_TABLES = ("system_tables", "performance_tables", "system_tables_data")
"""The files that `mariadb-install-db` feeds to the server, without the help texts.

We do not use the script itself, because it needs a program from the full package, which would also
install a daemon.
"""

SYSTEM_TABLES_AT = ("share/mariadb/mariadb_{}.sql", "share/mysql/mysql_{}.sql")
"""Paths of these files: the first from MariaDB 11 on, the second before it."""

BOOTSTRAP_PROLOGUE = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"


class MariadbServer(MysqlCompatibleServer):
    """One MariaDB server; committed data outlive the process."""

    kind = scheme = "mariadb"
    packages: ClassVar[dict[str, str]] = {"mariadbd": "mariadb-server-core"}
    account = "daemon"
    small: ClassVar[Sequence[str]] = (
        # The default log takes a hundred megabytes for each server.
        *("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M", "--key-buffer-size=1M"),
        "--performance-schema=OFF",
    )

    @classmethod
    def program(cls) -> Sequence[str]:
        """Return the MariaDB server on the PATH."""
        return ["mariadbd", "--no-defaults"]

    @classmethod
    def installed_in(cls) -> Path:
        """Return the prefix under which the server's files are installed."""
        return Path("/usr")

    @classmethod
    def build(cls, data: Path) -> None:
        """Create a data directory in which the root user has no password."""
        server = shlex.join(
            [
                *(*cls.program(), "--bootstrap", f"--datadir={data}", f"--tmpdir={data}"),
                *("--enforce-storage-engine=", "--skip-log-bin", *cls.small),
            ]
        )
        tables = shlex.join(map(str, system_tables(cls.installed_in())))
        bootstrap_sql = f"{{ printf %s {shlex.quote(BOOTSTRAP_PROLOGUE)}; cat {tables}; }}"
        run_as(cls.account, "sh", "-c", f"mkdir {data} && {bootstrap_sql} | {server}")


class NewerMariadbServer(MariadbServer):
    """A server of the release that `tools/newer_servers.py` has downloaded."""

    kind = "newer-mariadb"
    packages: ClassVar[dict[str, str]] = {}
    account = ""

    @classmethod
    def program(cls) -> Sequence[str]:
        """Return the downloaded server."""
        found = downloaded("mariadbd")
        if found is None:
            raise CannotStart("a newer MariaDB cannot be found: run tools/newer_servers.py")
        return cls.in_folder(found)

    @classmethod
    def installed_in(cls) -> Path:
        """Return the prefix under which the server's files are installed."""
        return Path(cls.program()[0]).parents[1] / "root/usr"


def system_tables(installed_in: Path) -> list[Path]:
    """Return the SQL files that define the system tables of this version."""
    for place in SYSTEM_TABLES_AT:
        files = [installed_in / place.format(one) for one in SYSTEM_TABLES]
        if all(one.exists() for one in files):
            return files
    places = " or ".join(str(installed_in / one) for one in SYSTEM_TABLES_AT)
    raise CannotStart(f"MariaDB's {places} cannot be found")


class ShiftedMariadb(ShiftedClock, MariadbServer):
    """A MariaDB server whose clock can be set."""


UNSAFE_BUT_QUICK_OPTIONS = (
    # If the build of the initial data crashes, the files that it left behind are never used.
    *("--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0"),
    "--innodb-doublewrite=OFF",
)


class MysqlServer(MysqlCompatibleServer):
    """One MySQL server; committed data outlive the process."""

    kind = "mysql"
    small: ClassVar[Sequence[str]] = (
        # With a smaller log, building the initial data waits for checkpoints.
        *("--innodb-redo-log-capacity=32M", "--innodb-buffer-pool-size=32M"),
        *("--performance-schema=OFF", "--mysqlx=OFF"),
    )

    @classmethod
    def program(cls) -> Sequence[str]:
        """Return the downloaded server, or else the server on the PATH.

        MariaDB installs its own server under this name too, and this server is not accepted.
        """
        no_files = "--secure-file-priv=NULL"  # the default directory may not exist
        if here := downloaded("mysqld"):
            return [*cls.in_folder(here), no_files]
        installed = shutil.which("mysqld")
        if installed is None or "mariadb" in Path(installed).resolve().name:
            raise CannotStart(
                "MySQL cannot be found: install the package mysql-server-core (in Debian, only sid "
                "has it), or run tools/newer_servers.py in a checkout of Lockfast"
            )
        is_root = ["--user=root"] if os.geteuid() == 0 else []
        return [installed, "--no-defaults", no_files, *is_root]

    @classmethod
    def build(cls, data: Path) -> None:
        """Create a data directory in which the root user has no password."""
        run_as(
            cls.account,
            *(*cls.program(), "--initialize-insecure", f"--datadir={data}"),
            *("--skip-log-bin", *cls.small, *UNSAFE_BUT_QUICK_OPTIONS),
        )


class ShiftedMysql(ShiftedClock, MysqlServer):
    """A MySQL server whose clock can be set."""
