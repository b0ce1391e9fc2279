"""Real PostgreSQL servers: single servers, or a primary with standbys.

PostgreSQL refuses to run as root; if we are root, the server runs as the account `postgres`.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from lockfast_challenge.servers.server import CannotStart, Server, missing, run_as
from lockfast_challenge.servers.shifted_clock import ShiftedClock

SERVER_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "max_wal_senders": "4",
    # The cost of a commit and the data that survive a crash are under test.
    "fsync": "on",
    "synchronous_commit": "on",
    # Tests search the server's messages for English words.
    "lc_messages": "C",
}


def program(name: str) -> str:
    """Return the path of a program of the newest PostgreSQL on this machine."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"),
        key=lambda path: int(path.parts[-3]),
    )
    if not found:
        raise CannotStart(missing({f"/usr/lib/postgresql/*/bin/{name}": "postgresql"}))
    return str(found[-1])


class PostgresqlServer(Server):
    """One server; committed data outlive the process.

    `access` holds lines of pg_hba.conf; if it is empty, every user of this machine may connect.
    """

    kind = "postgresql"
    packages: ClassVar[dict[str, str]] = {"/usr/lib/postgresql/*/bin/postgres": "postgresql"}
    account = "postgres"
    shutdown_signal = signal.SIGINT

    def __init__(self, *, settings: dict[str, str] | None = None, access: str = "") -> None:
        super().__init__()
        self.settings: dict[str, str] = SERVER_SETTINGS | (settings or {})
        self._access = access

    @classmethod
    def build(cls, data: Path) -> None:
        """Create a data directory, which takes a second, ten times as long as copying one."""
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        run_as(cls.account, program("initdb"), "-D", str(data), *options, "--no-instructions")

    def url(self, database: str = "postgres", *, user: str = "postgres", password: str = "") -> str:
        """Return the URL of a database on this server."""
        credentials = f"{user}:{password}" if password else user
        return f"postgresql://{credentials}@{self.address}/{database}"

    def command(self) -> list[str]:
        """Return the command line."""
        if self._access:
            (self.data / "pg_hba.conf").write_text(self._access)
        settings = self.settings | {
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
        }
        options = [word for key in settings for word in ("-c", f"{key}={settings[key]}")]
        return [program("postgres"), "-D", str(self.data), *options]

    def serves(self) -> bool:
        """Whether the server's owner can log in, or is rejected by a rule or for the password."""
        try:
            self.connect(connect_timeout=5).close()
        except psycopg.OperationalError as error:
            return "pg_hba" in str(error) or "password" in str(error)
        return True

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """Return a plain connection in autocommit mode."""
        return psycopg.connect(self.url(database), autocommit=True, **options)

    def run(self, statement: str, *values: object, database: str = "postgres") -> list[Any]:
        """Return the rows of one statement, run on a new connection."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def terminate(self, which: str) -> int:
        """Terminate the sessions that match this SQL condition; return how many there were."""
        [[count]] = self.run(f"""
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND ({which})
        """)  # noqa: S608 - the condition is our own
        return int(count)


class StandbyServer(PostgresqlServer):
    """A standby of another server, which accepts no writes until it is promoted."""

    def __init__(self, primary: PostgresqlServer, **options: Any) -> None:
        super().__init__(**options)
        self._primary = primary

    def spawn(self) -> None:
        """Copy the primary's data with `pg_basebackup`, and begin to start the standby."""
        if not self.data.exists():
            run_as(
                self.account,
                *(program("pg_basebackup"), "-h", "127.0.0.1", "-p", str(self._primary.port)),
                *("-U", "postgres", "-D", str(self.data), "-R", "-X", "stream", "-c", "fast"),
            )
        super().spawn()

    def promote(self) -> None:
        """Promote the standby to primary; return once the server accepts writes."""
        self.run("SELECT pg_promote()")


class ShiftedPostgresql(ShiftedClock, PostgresqlServer):
    """A PostgreSQL server whose clock can be set."""
