"""Separate processes that a test controls, and can kill, freeze and fork.

A test has a Stage, which starts a script in a process and returns a Puppet, which controls the
process. The script calls `serve` with an object whose methods are the commands.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from lockfast_challenge.processes import EVENTUALLY_SECONDS, eventually, is_dead, state_of

CLIENT = Path(__file__).with_name("client_puppet.py")
"""The script of a process with its own client, of either flavour and any store."""


class Puppet:
    """A separate process; its script defines the commands that it obeys."""

    def __init__(self, stage: Stage, connection: Connection, pid: int) -> None:
        self.pid = pid
        self._stage = stage
        self._connection = connection

    def tell(self, verb: str, *arguments: Any, **options: Any) -> None:
        """Send a command, without waiting for its reply."""
        self._connection.send((verb, arguments, options))

    def answer(self, *, within: float = EVENTUALLY_SECONDS) -> Any:
        """Return the reply; raise the error if the command raised one."""
        assert self._connection.poll(within), f"process {self.pid} has not answered in {within} s"
        value, error = self._connection.recv()
        if error is not None:
            raise error
        return value

    def ask(self, verb: str, *arguments: Any, **options: Any) -> Any:
        """Send a command, and return its reply."""
        self.tell(verb, *arguments, **options)
        return self.answer()

    def has_answered(self) -> bool:
        return self._connection.poll(0)

    def fork(self, **options: Any) -> Puppet:
        """Return the puppet's child, which has inherited everything."""
        self.ask("fork", **options)
        return self._stage.accept()

    def kill(self) -> None:
        """Kill the process with SIGKILL, and return when it is dead."""
        os.kill(self.pid, signal.SIGKILL)
        eventually(lambda: is_dead(self.pid))

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        eventually(self.is_frozen)

    def is_frozen(self) -> bool:
        return state_of(self.pid) == "T"

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def clear_away(self) -> None:
        self._connection.close()
        if not is_dead(self.pid):
            os.kill(self.pid, signal.SIGKILL)


class Stage:
    """Starts puppets, and ends them when the test ends."""

    def __init__(
        self, directory: Path, script: Path, *arguments: str, prefix: Sequence[str] = ()
    ) -> None:
        self._command = [*prefix, sys.executable, str(script), *arguments]
        self._listener = Listener(str(directory / "stage"), family="AF_UNIX")
        # Without a timeout, a puppet that fails to start would block until the end of the run.
        self._listener._listener._socket.settimeout(EVENTUALLY_SECONDS)
        self._started: list[subprocess.Popen[bytes]] = []
        self._puppets: list[Puppet] = []

    def __call__(self, *arguments: str, **options: float) -> Puppet:
        """Start a process with these arguments."""
        command = [*self._command, self._listener.address, *arguments]
        command += [f"{one}={value}" for one, value in options.items()]
        self._started.append(subprocess.Popen(command, env=environment()))
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


def environment() -> dict[str, str]:
    """Return our environment, extended so that a script can import what a test can."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def serve(actor: object, address: str) -> None:
    """Execute the test's commands and reply, with errors as they are, until the test is over."""
    with Client(address, family="AF_UNIX") as connection:
        connection.send(os.getpid())
        while True:
            try:
                verb, arguments, options = connection.recv()
            except EOFError:
                return
            try:
                answer = getattr(actor, verb)(*arguments, **options), None
            except Exception as error:  # noqa: BLE001 - it is raised where the test asks
                answer = None, error
            connection.send(answer)


def seconds_of(options: list[str]) -> dict[str, float]:
    """Return the options of a script's command line."""
    return {name: float(value) for name, value in (one.split("=") for one in options)}
