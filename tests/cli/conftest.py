"""The command line as users meet it: real processes, real signals, and a store for each test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lockfast
from lockfast_challenge.processes import EVENTUALLY_SECONDS


class Cli:
    """`lockfast` as a separate process, on one store."""

    def __init__(self, url: str, compiled: Path) -> None:
        self.url = url
        self._compiled = compiled
        self._started: list[subprocess.Popen[bytes]] = []

    @property
    def environment(self) -> dict[str, str]:
        unwanted = {"LOCKFAST_NAMESPACE", "COLUMNS", "NO_COLOR", "FORCE_COLOR"}
        # Compile once for all tests, even if the environment disables bytecode files.
        unwanted.add("PYTHONDONTWRITEBYTECODE")
        inherited = {one: value for one, value in os.environ.items() if one not in unwanted}
        return {
            **inherited,
            "LOCKFAST_URL": self.url,
            "PYTHONPYCACHEPREFIX": str(self._compiled),
            "TERM": "xterm-256color",
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "lockfast", *arguments]

    def __call__(
        self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            env={**self.environment, **(env or {})},
            timeout=2.5
            * EVENTUALLY_SECONDS,  # the demo computes for ten seconds, while nine other workers run
        )

    def json(self, *arguments: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self(*arguments, "--json").stdout)
        return answer

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        return self.start_program(self.command(*arguments))

    def start_program(
        self,
        command: list[str],
        *,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            command, env=self.environment, stdin=stdin, stdout=stdout, stderr=stderr
        )
        self._started.append(process)
        return process

    def clear_away(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.kill()
            process.communicate()


@pytest.fixture
def cli(tmp_path, tmp_path_factory) -> Iterator[Cli]:
    run = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        run = run.parent  # shared by all workers
    one = Cli(f"sqlite://{tmp_path}/locks.db", run / "compiled")
    with lockfast.Locks(one.url) as locks:
        locks.inspect("any")  # create the store: commands that only look do not
    yield one
    one.clear_away()


@pytest.fixture
def held(cli, tmp_path, eventually) -> Callable[..., subprocess.Popen[bytes]]:
    """Hold a name with a `lockfast run` whose command runs until it is terminated."""

    def hold(name: str, *options: str) -> subprocess.Popen[bytes]:
        ready = tmp_path / f"{name} is held"
        script = 'echo > "$0"; exec sleep 600'
        holder = cli.start("run", name, *options, "--", "sh", "-c", script, str(ready))
        eventually(ready.exists)
        return holder

    return hold


@pytest.fixture
def inspect(cli) -> Iterator[Callable[[str], lockfast.Inspection]]:
    """Inspect a name without starting a process."""
    with lockfast.Locks(cli.url) as locks:
        locks.inspect("any")  # connect now, whatever happens to the store later
        yield locks.inspect


@pytest.fixture
def is_running() -> Callable[[int], bool]:
    """Whether a process is running; a zombie counts as ended."""

    def look(pid: int) -> bool:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False
        return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}

    return look


@pytest.fixture
def dead_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def terminated() -> Callable[[subprocess.Popen[bytes]], int]:
    """Terminate a process with SIGTERM and return its exit code."""

    def end(process: subprocess.Popen[bytes]) -> int:
        process.send_signal(signal.SIGTERM)
        return process.wait(timeout=EVENTUALLY_SECONDS)

    return end
