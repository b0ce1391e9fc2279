"""Processes that hold and wait as a test tells them, and that can be frozen and killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any

import both_flavours
from both_flavours import Flavour
from zookeeper_servers import until

PATIENCE = 20.0
PUPPET = Path(both_flavours.__file__).parent / "faults" / "puppet.py"
"""What such a process runs; it knows a URL and no more, so one serves for all stores."""


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
        until(lambda: _state_of(self.pid) == "T", what="it is frozen")

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        until(lambda: _state_of(self.pid) in ("gone", "Z"), what="it is dead")

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
