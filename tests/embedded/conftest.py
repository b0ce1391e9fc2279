"""The embedded default as its users meet it: real processes, real files, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 20.0
WORKER = Path(__file__).with_name("worker.py")


class Puppet:
    """A process of its own with a client of its own; see worker.py for what it can do."""

    def __init__(self, stage: Stage, connection: Connection, pid: int) -> None:
        self.pid = pid
        self._stage = stage
        self._connection = connection

    def tell(self, verb: str, *arguments: Any, **options: Any) -> None:
        """Have it do something, without waiting for it to be done."""
        self._connection.send((verb, arguments, options))

    def answer(self, *, within: float = PATIENCE) -> Any:
        """Return what it answers; raise what it raised."""
        assert self._connection.poll(within), f"process {self.pid} has not answered in {within} s"
        value, error = self._connection.recv()
        if error is not None:
            raise error
        return value

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        self.tell(verb, *arguments, **options)
        return self.answer()

    def has_answered(self) -> bool:
        return self._connection.poll(0)

    def fork(self, *, how: str = "os.fork") -> Puppet:
        """Return its child, which has inherited its client."""
        self.ask("fork", how=how)
        return self._stage.accept()

    def kill(self) -> None:
        """Kill -9, and come back when it is dead."""
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: is_dead(self.pid))

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        eventually(lambda: state_of(self.pid) == "T")

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def clear_away(self) -> None:
        self._connection.close()
        if not is_dead(self.pid):
            os.kill(self.pid, signal.SIGKILL)


class Stage:
    """Where puppets come from; they are gone when the test ends."""

    def __init__(self, directory: Path) -> None:
        self._listener = Listener(str(directory / "stage"), family="AF_UNIX")
        self._started: list[subprocess.Popen[bytes]] = []
        self._puppets: list[Puppet] = []

    def __call__(self, url: str, **options: Any) -> Puppet:
        """Start a process with a client of the URL."""
        command = [sys.executable, str(WORKER), "puppet", self._listener.address, url]
        process = subprocess.Popen([*command, *(f"{one}={options[one]}" for one in options)])
        self._started.append(process)
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


class Belongings:
    """The threads, sockets and files of this process, compared with what it had before."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._files = _open_files()

    def added(self) -> list[str]:
        """Return what has come since."""
        threads = [f"thread {one.name}" for one in set(threading.enumerate()) - self._threads]
        files = [
            f"file {target}"
            for number, target in _open_files().items()
            if self._files.get(number) != target
        ]
        return sorted(threads + files)


def _open_files() -> dict[str, str]:
    files = {}
    for number in Path("/proc/self/fd").iterdir():
        try:
            files[number.name] = str(number.readlink())
        except FileNotFoundError:
            continue  # the descriptor of this very listing
    return files


def is_dead(pid: int) -> bool:
    """Whether nothing of the process runs, be it reaped or not."""
    try:
        # A process whose first thread is dead already shows as a zombie, while the others
        # still hold its files open.
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:
        return True
    return state_of(pid) in ("gone", "Z") and len(tasks) <= 1


def state_of(pid: int) -> str:
    """Return the letter that ps shows, or "gone"."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
    return stat.rpartition(")")[2].split()[0]


def eventually(has_happened: Callable[[], object], *, within: float = PATIENCE) -> None:
    """Wait until something has happened; fail if it never does."""
    deadline = time.monotonic() + within
    while not has_happened():
        assert time.monotonic() < deadline, f"has not happened in {within} s"
        time.sleep(0.005)


@pytest.fixture(name="eventually")
def _eventually() -> Callable[..., None]:
    return eventually


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "locks.db"


@pytest.fixture
def url(path) -> str:
    return f"sqlite://{path}"


@pytest.fixture
def puppet(tmp_path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    stage.clear_away()


@pytest.fixture
def belongings() -> type[Belongings]:
    """Taken before, and asked afterwards what was added."""
    return Belongings
