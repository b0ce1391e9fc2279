"""Processes of their own that do what a test tells them, and can be killed, frozen and forked.

A test has a Stage, which starts a script and gives the Puppet of its process. The script calls
`serve` with something whose methods are the verbs.
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

from lockfast.challenge.eventually import PATIENCE, eventually
from lockfast.challenge.processes import is_dead, state_of

CLIENT = Path(__file__).with_name("client_puppet.py")
"""The script of a process with a client of its own, of either flavour and any store."""


class Puppet:
    """A process of its own; its script says what it can do."""

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
        """Have it do something, and return what it answers."""
        self.tell(verb, *arguments, **options)
        return self.answer()

    def has_answered(self) -> bool:
        return self._connection.poll(0)

    def fork(self, **options: Any) -> Puppet:
        """Return its child, which has inherited all it has."""
        self.ask("fork", **options)
        return self._stage.accept()

    def kill(self) -> None:
        """Kill -9, and come back when it is dead."""
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
    """Where puppets come from; they are gone when the test ends."""

    def __init__(
        self, directory: Path, script: Path, *arguments: str, prefix: Sequence[str] = ()
    ) -> None:
        self._command = [*prefix, sys.executable, str(script), *arguments]
        self._listener = Listener(str(directory / "stage"), family="AF_UNIX")
        # A puppet that fails at its start would be waited for until the end of the run.
        self._listener._listener._socket.settimeout(PATIENCE)
        self._started: list[subprocess.Popen[bytes]] = []
        self._puppets: list[Puppet] = []

    def __call__(self, *arguments: str, **options: float) -> Puppet:
        """Start a process, and tell it these."""
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
    """Return ours, with which a script finds what the tests share as a test does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def serve(actor: object, address: str) -> None:
    """Do what the test tells, and answer, errors as they are; return when the test is over."""
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
