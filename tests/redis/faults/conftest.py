"""Real servers, a proxy that breaks the way to them, and processes that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour
from proxy import Proxy
from redis_servers import RedisServer

from holdfast import StaleToken
from holdfast.model import Event
from holdfast.runtime.clock import Clock
from holdfast.scripts import redis_script

PATIENCE = 20.0
PUPPET = Path(__file__).with_name("puppet.py")
VERBS = ("acquire", "acquire_all", "renew", "release", "withdraw", "beat", "inspect", "break")


class Puppet:
    """A process of its own with a client of its own; see puppet.py for what it can do."""

    def __init__(self, stage: Stage, connection: Connection, pid: int) -> None:
        self.pid = pid
        self._stage = stage
        self._connection = connection

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Return what it answers; raise what it raised."""
        self._connection.send((verb, arguments, options))
        assert self._connection.poll(PATIENCE), f"process {self.pid} does not answer"
        value, error = self._connection.recv()
        if error is not None:
            raise error
        return value

    def fork(self) -> Puppet:
        """Return its child, which has inherited its client."""
        self.ask("fork")
        return self._stage.accept()

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: _state_of(self.pid) == "T")

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: _state_of(self.pid) in ("gone", "Z"))

    def clear_away(self) -> None:
        self._connection.close()
        if _state_of(self.pid) not in ("gone", "Z"):
            os.kill(self.pid, signal.SIGKILL)


class Stage:
    """Where puppets come from; they are gone when the test ends."""

    def __init__(self, directory: Path) -> None:
        self._listener = Listener(str(directory / "stage"), family="AF_UNIX")
        # A puppet that fails at its start would be waited for until the end of the run.
        self._listener._listener._socket.settimeout(PATIENCE)
        self._started: list[subprocess.Popen[bytes]] = []
        self._puppets: list[Puppet] = []

    def __call__(self, flavour: Flavour, url: str, **options: Any) -> Puppet:
        command = [sys.executable, str(PUPPET), self._listener.address, flavour.name, url]
        command += [f"{one}={options[one]}" for one in options]
        path = f"{PUPPET.parent.parent}:{os.environ.get('PYTHONPATH', '')}"
        environment = {**os.environ, "PYTHONPATH": path}
        self._started.append(subprocess.Popen(command, env=environment))
        return self.accept()

    def accept(self) -> Puppet:
        connection = self._listener.accept()
        puppet = Puppet(self, connection, connection.recv())
        self._puppets.append(puppet)
        return puppet

    def clear_away(self) -> None:
        for puppet in self._puppets:
            puppet.clear_away()
        for process in self._started:
            process.wait()
        self._listener.close()


def _state_of(pid: int) -> str:
    """Return the letter that ps shows, or "gone"."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return stat.rpartition(")")[2].split()[0]


class Guarded:
    """A resource that refuses a write with a smaller token than it has seen."""

    def __init__(self) -> None:
        self.accepted: list[int] = []

    def write(self, token: int) -> None:
        seen = max(self.accepted, default=0)
        if token < seen:
            raise StaleToken(f"{token} after {seen}", token=token, seen=seen)
        self.accepted.append(token)


class Diary:
    """A hook that keeps the events it is told, and when."""

    def __init__(self) -> None:
        self._clock = Clock()
        self.entries: list[tuple[float, str, Event]] = []

    def __call__(self, event: Event) -> None:
        self.entries.append((self._clock.now(), type(event).__name__, event))

    def kinds(self) -> list[str]:
        return [kind for _, kind, _ in self.entries]

    def time_of(self, kind: str) -> float:
        """Return when such a thing was first told; hooks are called after the lease is told."""
        eventually(lambda: kind in self.kinds())
        return next(at for at, one, _ in self.entries if one == kind)

    def count(self, kind: str) -> int:
        return self.kinds().count(kind)


def eventually(has_happened: Callable[[], object], *, within: float = PATIENCE) -> None:
    """Wait until something has happened; fail if it never does."""
    deadline = time.monotonic() + within
    while not has_happened():
        assert time.monotonic() < deadline, f"has not happened in {within} s"
        time.sleep(0.005)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., None]:
    return eventually


@pytest.fixture(params=FLAVOURS)
def flavour(request) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


def know_the_scripts(server: RedisServer) -> None:
    """Let the server know all scripts, so that each verb is one request."""
    with server.client() as client:
        for verb in VERBS:
            client.script_load(redis_script(verb).source)


@pytest.fixture
def server() -> Iterator[RedisServer]:
    with RedisServer() as one:
        know_the_scripts(one)
        yield one


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    with Proxy(server.port) as one:
        yield one


@pytest.fixture
def puppet(tmp_path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.clear_away()


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def line(flavour, server):
    """Look at a name over a way that is not broken: holders' tokens, and how many wait."""
    watcher = flavour.locks(server.url)

    def look(name: str) -> tuple[list[int | None], int]:
        found = watcher.inspect(name)
        return [one.token for one in found.holders], len(found.line)

    return look
