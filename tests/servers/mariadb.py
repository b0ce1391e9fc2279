"""Real MariaDB servers for tests: on free ports of this machine, gone with the run.

A server that cannot be started fails the test that asked for it; nothing is skipped. The data
directory is made once in a run and copied.
"""

from __future__ import annotations

import atexit
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Self

import pymysql
from freezing import freeze
from servers.postgresql import as_ordinary_user, give_to_ordinary_user
from servers.redis import free_ports

PATIENCE = 20.0
"""A server of this machine that has not answered by then will not."""

SMALL = (
    # Not a hundred megabytes of log for each server.
    *("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M", "--key-buffer-size=1M"),
    *("--performance-schema=OFF", "--skip-log-bin"),
)


SYSTEM_TABLES = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data")
"""What `mariadb-install-db` lets the server read, but for the help texts. That script itself
needs a program of the full package, which would also bring a daemon."""


@cache
def template() -> Path:
    """Return a data directory that was never started; made once in a run."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-mariadb-template-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    (directory / "data").mkdir()
    give_to_ordinary_user(directory)
    statements = ["CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n"]
    statements += [Path(f"/usr/share/mysql/{one}.sql").read_text() for one in SYSTEM_TABLES]
    made = subprocess.run(
        [
            *as_ordinary_user(),
            *("mariadbd", "--no-defaults", "--bootstrap", f"--datadir={directory / 'data'}"),
            *("--enforce-storage-engine=", "--max-allowed-packet=8M", *SMALL),
        ],
        input="".join(statements),
        cwd=directory,
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return directory / "data"


class MariadbServer:
    """One server in a directory of its own; what was committed outlives its process."""

    def __init__(self, *options: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-mariadb-"))
        self.options = options
        [self.port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "test", *, user: str = "root", password: str = "") -> str:
        """Return the URL of a database on it."""
        credentials = f"{user}:{password}" if password else user
        return f"mariadb://{credentials}@127.0.0.1:{self.port}/{database}"

    @property
    def data(self) -> Path:
        """Where its files are."""
        return self.directory / "data"

    def start(self) -> Self:
        """Return once it answers; started again it has the same port and data."""
        if not self.data.exists():
            shutil.copytree(template(), self.data)
            give_to_ordinary_user(self.directory)
        for is_last in (False, False, True):
            self._spawn()
            if self.wait_until_it_answers(raises=is_last):
                break
            # Somebody took the port between our choice and the server's bind.
            [self.port] = free_ports(1)
        return self

    def _spawn(self) -> None:
        with (self.directory / "log").open("ab") as log:
            # Dies with the thread that started it, also when the run is killed.
            self._process = subprocess.Popen(
                [*as_ordinary_user(), "setpriv", "--pdeathsig", "KILL", "--", *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.directory,
            )
        atexit.register(self.stop)

    def command(self) -> list[str]:
        """Return what is run."""
        return [
            *("mariadbd", "--no-defaults", f"--datadir={self.data}", f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.directory / 'socket'}"),
            *(f"--pid-file={self.directory / 'pid'}", "--skip-name-resolve", *SMALL),
            # What a commit costs is on trial, and what survives a crash.
            "--innodb-flush-log-at-trx-commit=1",
            *self.options,
        ]

    def wait_until_it_answers(self, *, raises: bool = True) -> bool:
        """Return once it lets us in; false if its process has ended."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.connect("").close()
            except pymysql.OperationalError:
                is_over = self.process.poll() is not None
                if is_over and not raises:
                    return False
                if is_over or time.monotonic() > deadline:
                    log = (self.directory / "log").read_text()[-4000:]
                    raise RuntimeError(f"MariaDB did not start:\n{log}") from None
                time.sleep(0.005)
            else:
                return True

    def connect(self, database: str = "", **options: Any) -> pymysql.Connection[Any]:
        """Return a plain connection, each of whose statements is committed at once."""
        where = {"host": "127.0.0.1", "port": self.port, "user": "root", "autocommit": True}
        return pymysql.connect(**{**where, "database": database or None, **options})

    def run(self, statement: str, *values: object, database: str = "") -> tuple[Any, ...]:
        """Return the rows of one statement, on a connection of its own."""
        with self.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return tuple(cursor.fetchall())

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running server, whose connections are its threads."""
        assert self._process is not None, "the server was not started"
        return self._process

    def pause(self) -> None:
        """Freeze the process."""
        freeze(self.process)

    def resume(self) -> None:
        """Let it run again."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would; what was committed is there when it is started again."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it for good, and delete what it kept."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.stop)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


@cache
def shared_server() -> MariadbServer:
    """Return a server that all tests of this run share; each takes a database of its own."""
    return MariadbServer().start()
