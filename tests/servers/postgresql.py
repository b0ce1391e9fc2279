"""Real PostgreSQL servers for tests: on free ports of this machine, gone with the run.

A server that cannot be started fails the test that asked for it; nothing is skipped. The data
directory is made once in a run and copied, which takes a tenth of the time. The server refuses
to be run by root, and becomes `nobody` then.
"""

from __future__ import annotations

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Self

import psycopg
from servers.redis import free_ports

PATIENCE = 20.0
"""A server of this machine that has not answered by then will not."""

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
    assert found, f"no {name} below /usr/lib/postgresql; run tools/system_packages.py"
    return str(found[-1])


def as_ordinary_user() -> list[str]:
    """Return what goes before a command that root may not run: it becomes nobody, same pid."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]


def give_to_ordinary_user(directory: Path) -> None:
    """Let whoever runs the server write there."""
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (directory, *directory.rglob("*")):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)


@cache
def template() -> Path:
    """Return a data directory that was never started; made once in a run."""
    directory = Path(tempfile.mkdtemp(prefix="holdfast-postgresql-template-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    give_to_ordinary_user(directory)
    options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
    made = subprocess.run(
        [
            *as_ordinary_user(),
            *(program("initdb"), "-D", str(directory / "data"), *options),
            *("--no-sync", "--no-instructions"),
        ],
        cwd=directory,
        check=False,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    return directory / "data"


class PostgresqlServer:
    """One server in a directory of its own; what was committed outlives its process.

    `access` are lines of pg_hba.conf; without them everybody of this machine may come in.
    """

    def __init__(self, *, settings: dict[str, str] | None = None, access: str = "") -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-postgresql-"))
        self.settings = SETTINGS | (settings or {})
        [self.port] = free_ports(1)
        self._access = access
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """Where its files are."""
        return self.directory / "data"

    def url(self, database: str = "postgres", *, user: str = "postgres", password: str = "") -> str:
        """Return the URL of a database on it."""
        credentials = f"{user}:{password}" if password else user
        return f"postgresql://{credentials}@127.0.0.1:{self.port}/{database}"

    def start(self) -> Self:
        """Return once it answers; started again it has the same port and data."""
        if not self.data.exists():
            self.make_data()
        for is_last in (False, False, True):
            self._spawn()
            if self.wait_until_it_answers(raises=is_last):
                break
            # Somebody took the port between our choice and the server's bind.
            [self.port] = free_ports(1)
        return self

    def make_data(self) -> None:
        """Put the files there that it begins with."""
        shutil.copytree(template(), self.data)
        if self._access:
            (self.data / "pg_hba.conf").write_text(self._access)
        give_to_ordinary_user(self.directory)

    def _spawn(self) -> None:
        with (self.directory / "log").open("ab") as log:
            # Dies with the thread that started it, also when the run is killed. After becoming
            # another user: that would take the wish back.
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
        settings = self.settings | {
            "port": str(self.port),
            "unix_socket_directories": str(self.directory),
        }
        options = [word for key in settings for word in ("-c", f"{key}={settings[key]}")]
        return [program("postgres"), "-D", str(self.data), *options]

    def wait_until_it_answers(self, *, raises: bool = True) -> bool:
        """Return once it lets us in, or says why not; false if its process has ended."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with self.connect(connect_timeout=5):
                    return True
            except psycopg.OperationalError as error:
                is_over = self.process.poll() is not None
                if is_over and not raises:
                    return False
                if is_over or time.monotonic() > deadline:
                    raise RuntimeError(f"PostgreSQL did not start:\n{self.log()}") from None
                if "pg_hba" in str(error) or "password" in str(error):
                    return True
                time.sleep(0.005)

    def log(self) -> str:
        """Return the end of what it wrote, where the reason stands."""
        return (self.directory / "log").read_text()[-4000:]

    def connect(self, database: str = "postgres", **options: Any) -> psycopg.Connection[Any]:
        """Return a plain connection, each of whose statements is committed at once."""
        return psycopg.connect(self.url(database), autocommit=True, **options)

    def run(self, statement: str, *values: object, database: str = "postgres") -> list[Any]:
        """Return the rows of one statement, on a connection of its own."""
        with self.connect(database) as connection:
            cursor = connection.execute(statement, values or None)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def terminate_all(self, *, but: tuple[int, ...] = (), which: str = "true") -> int:
        """End the sessions of all other clients, or of those that a condition names."""
        statement = f"""
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
                AND NOT pid = ANY(%s) AND ({which})
        """
        [[count]] = self.run(statement, list(but))
        return int(count)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running server, which has a process for each connection."""
        assert self._process is not None, "the server was not started"
        return self._process

    def pids(self) -> list[int]:
        """Return its own process and all those below it."""
        children = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(self.process.pid)],
            check=False,
            capture_output=True,
            text=True,
        )
        return [self.process.pid, *map(int, children.stdout.split())]

    def pause(self) -> None:
        """Freeze all its processes: first the one that would start others."""
        os.kill(self.process.pid, signal.SIGSTOP)
        for pid in self.pids():
            _signal(pid, signal.SIGSTOP)
        deadline = time.monotonic() + PATIENCE
        while not all(map(_is_frozen, self.pids())):
            assert time.monotonic() < deadline, "the server could not be frozen"
            time.sleep(0.001)

    def resume(self) -> None:
        """Let them run again."""
        for pid in reversed(self.pids()):
            _signal(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would; what was committed is there when it is started again."""
        for pid in self.pids():
            _signal(pid, signal.SIGKILL)
        self.process.wait()
        # Its children hold on to memory that the next one wants to be free.
        deadline = time.monotonic() + PATIENCE
        while (pids := _still_there(self.data)) and time.monotonic() < deadline:
            for pid in pids:
                _signal(pid, signal.SIGKILL)
            time.sleep(0.005)

    def shut_down(self) -> None:
        """End it in order, at once: its clients are told that it goes."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(PATIENCE)

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


class Standby(PostgresqlServer):
    """A copy of another server that follows it, and takes no writes until it is promoted."""

    def __init__(
        self, primary: PostgresqlServer, *, settings: dict[str, str] | None = None
    ) -> None:
        super().__init__(settings=settings)
        self._primary = primary

    def make_data(self) -> None:
        """Copy what the primary has, by its own means."""
        give_to_ordinary_user(self.directory)
        subprocess.run(
            [
                *as_ordinary_user(),
                *(program("pg_basebackup"), "-h", "127.0.0.1", "-p", str(self._primary.port)),
                *("-U", "postgres", "-D", str(self.data), "-R", "-X", "stream", "-c", "fast"),
            ],
            cwd=self.directory,
            check=True,
            capture_output=True,
        )

    def promote(self) -> None:
        """Make it a primary; returns when it takes writes."""
        self.run("SELECT pg_promote()")


@cache
def shared_server() -> PostgresqlServer:
    """Return a server that all tests of this run share; each takes a database of its own."""
    return PostgresqlServer().start()


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # it ended by itself


def _is_frozen(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in "TZX"


def _still_there(data: Path) -> list[int]:
    """Return the processes that work in a data directory, which is where each of them stands."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink() == data:
                found.append(int(link.parts[2]))
        except OSError:
            continue  # it ended, or it is not ours to look at
    return found
