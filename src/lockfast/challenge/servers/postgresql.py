"""Real PostgreSQL servers: alone, or as a primary with those that follow it.

It refuses to be run by root, and becomes its own account then.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from lockfast.challenge.servers.shifted_clock import ShiftedClock
from lockfast.challenge.servers.starting import CannotStart, Server, missing, run_as

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "max_wal_senders": "4",
    # What a commit costs is on trial, and what survives a crash.
    "fsync": "on",
    "synchronous_commit": "on",
    # Words that a test looks for.
    "lc_messages": "C",
}


def program(name: str) -> str:
    """Return where a program of the newest PostgreSQL on this machine is."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"),
        key=lambda path: int(path.parts[-3]),
    )
    if not found:
        raise CannotStart(missing({f"/usr/lib/postgresql/*/bin/{name}": "postgresql"}))
    return str(found[-1])


class PostgresqlServer(Server):
    """One server; what was committed outlives its process.

    `access` are lines of pg_hba.conf; without them everybody of this machine may come in.
    """

    kind = "postgresql"
    packages: ClassVar[dict[str, str]] = {"/usr/lib/postgresql/*/bin/postgres": "postgresql"}
    account = "postgres"
    shuts_down_by = signal.SIGINT

    def __init__(self, *, settings: dict[str, str] | None = None, access: str = "") -> None:
        super().__init__()
        self.settings: dict[str, str] = SETTINGS | (settings or {})
        self._access = access

    @classmethod
    def build(cls, data: Path) -> None:
        """Make a data directory: a second, where a copy of it takes a tenth."""
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        run_as(cls.account, program("initdb"), "-D", str(data), *options, "--no-instructions")

    def url(self, database: str = "postgres", *, user: str = "postgres", password: str = "") -> str:
        """Return the URL of a database on it."""
        credentials = f"{user}:{password}" if password else user
        return f"postgresql://{credentials}@{self.address}/{database}"

    def command(self) -> list[str]:
        """Return what is run."""
        if self._access:
            (self.data / "pg_hba.conf").write_text(self._access)
        settings = self.settings | {
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
        }
        options = [word for key in settings for word in ("-c", f"{key}={settings[key]}")]
        return [program("postgres"), "-D", str(self.data), *options]

    def serves(self) -> bool:
        """Whether it lets its owner in, or says why not."""
        try:
            self.connect(connect_timeout=5).close()
        except psycopg.OperationalError as error:
            return "pg_hba" in str(error) or "password" in str(error)
        return True

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """Return a plain connection, each of whose statements is committed at once."""
        return psycopg.connect(self.url(database), autocommit=True, **options)

    def run(self, statement: str, *values: object, database: str = "postgres") -> list[Any]:
        """Return the rows of one statement, on a connection of its own."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def terminate(self, which: str) -> int:
        """End the sessions of which this is true, and return how many there were."""
        [[count]] = self.run(f"""
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND ({which})
        """)  # noqa: S608 - the condition is our own
        return int(count)


class Standby(PostgresqlServer):
    """A copy of another server that follows it, and takes no writes until it is promoted."""

    def __init__(self, primary: PostgresqlServer, **options: Any) -> None:
        super().__init__(**options)
        self._primary = primary

    def spawn(self) -> None:
        """Copy what the primary has, by its own means, and begin to start it."""
        if not self.data.exists():
            run_as(
                self.account,
                *(program("pg_basebackup"), "-h", "127.0.0.1", "-p", str(self._primary.port)),
                *("-U", "postgres", "-D", str(self.data), "-R", "-X", "stream", "-c", "fast"),
            )
        super().spawn()

    def promote(self) -> None:
        """Make it a primary; returns when it takes writes."""
        self.run("SELECT pg_promote()")


class ShiftedPostgresql(ShiftedClock, PostgresqlServer):
    """A PostgreSQL server, and its clock."""
