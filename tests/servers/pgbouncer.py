"""A real PgBouncer before a PostgreSQL server, in transaction mode unless told otherwise."""

from __future__ import annotations

import atexit
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Self

import psycopg
from freezing import freeze
from servers.postgresql import PostgresqlServer, as_ordinary_user, give_to_ordinary_user
from servers.redis import free_ports

PATIENCE = 20.0
"""A pooler of this machine that has not answered by then will not."""

SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
pool_mode = {mode}
default_pool_size = {size}
max_client_conn = 500
auth_type = any
logfile =
"""


class PgBouncer:
    """One pooler, by which its clients share a few connections of the server."""

    def __init__(
        self, server: PostgresqlServer, *, mode: str = "transaction", size: int = 10
    ) -> None:
        self.server = server
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-pgbouncer-"))
        self._mode = mode
        self._size = size
        [self.port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database behind it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> Self:
        """Return once somebody gets through to the server."""
        for is_last in (False, False, True):
            self._spawn()
            if self._answers(raises=is_last):
                break
            # Somebody took the port between our choice and the pooler's bind.
            [self.port] = free_ports(1)
        return self

    def _spawn(self) -> None:
        path = self.directory / "pgbouncer.ini"
        path.write_text(
            SETTINGS.format(
                server=self.server.port, port=self.port, mode=self._mode, size=self._size
            )
        )
        give_to_ordinary_user(self.directory)
        command = ["setpriv", "--pdeathsig", "KILL", "--", "/usr/sbin/pgbouncer", str(path)]
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*as_ordinary_user(), *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.directory,
            )
        atexit.register(self.stop)

    def _answers(self, *, raises: bool) -> bool:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with psycopg.connect(self.url(), connect_timeout=5):
                    return True
            except psycopg.OperationalError:
                is_over = self.process.poll() is not None
                if is_over and not raises:
                    return False
                if is_over or time.monotonic() > deadline:
                    log = (self.directory / "log").read_text()[-4000:]
                    raise RuntimeError(f"PgBouncer did not start:\n{log}") from None
                time.sleep(0.005)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running pooler."""
        assert self._process is not None, "the pooler was not started"
        return self._process

    def pause(self) -> None:
        """Freeze the process."""
        freeze(self.process)

    def resume(self) -> None:
        """Let it run again."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """End it for good."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.stop)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
