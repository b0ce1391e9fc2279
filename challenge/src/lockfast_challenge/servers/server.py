"""Real servers of any store: on free ports of this machine, removed with the run.

A store's server class gives its command line, and how to tell that it serves:

    class EtcdServer(Server):
        kind = "etcd"

        def command(self) -> list[str]:
            return ["etcd", "--data-dir", str(self.data), …]

        def serves(self) -> bool:
            …

Where the initial data are expensive to make, `build` makes them once. A server that cannot be
started raises an error that says why; in a test this is a failure, and nothing is skipped.
"""

from __future__ import annotations

import atexit
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Generic, Self, TypeVar

from lockfast_challenge.processes import (
    eventually,
    family,
    freeze_family,
    is_dead,
    signal_all,
    thaw_family,
)
from lockfast_challenge.servers.made_once import made_once
from lockfast_challenge.servers.run_directory import run_directory

if TYPE_CHECKING:
    from collections.abc import Mapping

LOG_CHARACTERS_SHOWN = 4000
"""Number of characters to show from the beginning of a long log, and from its end."""


class CannotStart(RuntimeError):
    """The server cannot run on this machine; the message says what to install."""


class Started:
    """Something that is started on entering a block, and stopped for good when the block ends."""

    def start(self) -> Self:
        """Start the server or group; return once it serves."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the server or group for good."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Server(Started):
    """One server, in its own directory, which outlives the process until `stop`."""

    kind = "server"
    """The server's name in paths and error messages."""

    port: int
    """The port that the server listens on; chosen again if another process took the port first."""

    packages: ClassVar[Mapping[str, str]] = {}
    """Maps the programs that the server needs to the Debian packages that provide them.

    A key may also be a path, in which * stands for any version.
    """

    patience: float = 60.0
    """Timeout for the server to serve, or to end, in seconds; far more than a server needs."""

    account = ""
    """The account the server runs under if we are root, for servers that refuse to run as root."""

    ends_by = signal.SIGKILL
    """The signal that stops the server for good; not SIGKILL if that would leave things behind."""

    shutdown_signal = signal.SIGTERM
    """The signal that makes the server shut down cleanly, and at once."""

    def __init__(self, *, environment: dict[str, str] | None = None) -> None:
        self.directory: Path = _directory(self.kind, self.account)
        self.environment = environment
        self.choose_ports()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    # -- implemented by each store ---------------------------------------------------------

    def command(self) -> list[str]:
        """Return the command line; this may write files that the server needs in its directory."""
        raise NotImplementedError

    def serves(self) -> bool:
        """Return whether the server serves; polled while the server starts."""
        raise NotImplementedError

    def choose_ports(self) -> None:
        """Choose the ports; called again if another process took a port before the server did."""
        [self.port] = free_ports(1)

    @classmethod
    def build(cls, data: Path) -> None:
        """Create the initial data directory, once; each server gets a copy."""
        data.mkdir()

    # -- for callers -----------------------------------------------------------------------

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The directory for the server's data."""
        return self.directory / "data"

    def start(self) -> Self:
        """Start the server; return once it serves. A restarted server keeps port and directory."""
        for is_last in (False, False, True):
            self.spawn()
            if self.until_it_serves(raises=is_last):
                break
            # Another process took the port between our choice and the server's bind.
            self.choose_ports()
        return self

    def spawn(self) -> None:
        """Begin to start the server, without waiting; CannotStart says what this machine lacks."""
        if lacks := missing(self.packages):
            raise CannotStart(lacks)
        if not self.data.exists():
            # Keep the owner, because the data were built under the server's own account.
            built = _built(type(self))  # type: ignore[arg-type]  # a class can be hashed
            copy = ["cp", "--archive", "--reflink=auto", str(built), str(self.data)]
            subprocess.run(copy, check=True)
        with (self.directory / "log").open("ab") as log:
            # The server dies with the thread that started it, even if the run is killed.
            self._process = subprocess.Popen(
                [
                    "setpriv",
                    *_setpriv_options(self.account),
                    "--pdeathsig",
                    "KILL",
                    "--",
                    *self.command(),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.directory,
                env=self.environment,
            )

    def until_it_serves(self, *, raises: bool = True) -> bool:
        """Return True once the server serves.

        If its process ends before that, this raises an error, or returns False if `raises` is
        false.
        """
        deadline = time.monotonic() + self.patience
        while not self.serves():
            if not self.is_running and not raises:
                return False
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} did not start:\n{self.log()}")
            time.sleep(0.01)
        return True

    def log(self) -> str:
        """Return the beginning and end of the server's log, where the reason for a failure is."""
        text = (self.directory / "log").read_text(errors="replace")
        return (
            text
            if len(text) <= 2 * LOG_CHARACTERS_SHOWN
            else f"{text[:LOG_CHARACTERS_SHOWN]}\n…\n{text[-LOG_CHARACTERS_SHOWN:]}"
        )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The server's process; raises an error if the server was never started."""
        if self._process is None:
            raise RuntimeError(f"this {self.kind} was not started")
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether the server's process is alive, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def pause(self) -> None:
        """Freeze the process and its children."""
        freeze_family(self.process)

    def resume(self) -> None:
        """Let the process and its children run again."""
        thaw_family(self.process)

    def shut_down(self) -> None:
        """Shut the server down cleanly, so that its clients are notified."""
        self.process.send_signal(self.shutdown_signal)
        self.process.wait(self.patience)

    def kill(self) -> None:
        """Kill the server, as in a crash."""
        pids = family(self.process.pid)
        signal_all(pids, signal.SIGKILL)
        self.process.wait()
        # A child that is not dead yet would still accept connections.
        eventually(lambda: all(map(is_dead, pids)), what=f"all of {self.kind} is dead")

    def stop(self) -> None:
        """Stop the server for good, and delete its directory."""
        if self.is_running and self.ends_by != signal.SIGKILL:
            self.resume()
            self.process.send_signal(self.ends_by)
            with suppress(subprocess.TimeoutExpired):  # otherwise killed below
                self.process.wait(self.patience)
        if self.is_running:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.stop)


S = TypeVar("S", bound=Server)


class Three(Started, Generic[S]):
    """Three servers that form a group and elect a leader."""

    kind = "group"
    """The group's name in error messages."""

    scheme = ""
    """The scheme of the group's URL."""

    def __init__(self) -> None:
        self.members: list[S] = []

    # -- implemented by each store ---------------------------------------------------------

    def make(self) -> list[S]:
        """Return three servers that have each other's addresses, and are not started."""
        raise NotImplementedError

    def until_whole(self) -> None:
        """Return once one member leads and the other members follow it."""
        raise NotImplementedError

    def leader(self) -> S:
        """Return the current leader; wait if an election is under way."""
        raise NotImplementedError

    # -- for callers -----------------------------------------------------------------------

    def start(self) -> Self:
        """Return once all three servers serve."""
        for is_last in (False, False, True):
            self.members = self.make()
            for one in self.members:
                one.spawn()
            if self._is_whole_in_time(raises=is_last):
                break
            self.stop()  # another process took one of the nine ports
        return self

    def _is_whole_in_time(self, *, raises: bool) -> bool:
        try:
            self.until_whole()
        except AssertionError:
            if raises:
                logs = "\n".join(one.log() for one in self.members)
                raise RuntimeError(f"no {self.kind}:\n{logs}") from None
            return False
        return True

    @property
    def address(self) -> str:
        """The addresses of all members, separated by commas."""
        return ",".join(one.address for one in self.members)

    @property
    def url(self) -> str:
        """The URL that names all members."""
        return f"{self.scheme}://{self.address}"

    def url_from(self, first: S) -> str:
        """Return the URL that names this member before the other members."""
        hosts = first.address, *(one.address for one in self.members if one is not first)
        return f"{self.scheme}://{','.join(hosts)}"

    def heal(self) -> Self:
        """Restart dead members, resume frozen ones, and return once the group is whole."""
        for one in self.members:
            if one.is_running:
                one.resume()
            else:
                one.spawn()
        self.until_whole()
        return self

    def stop(self) -> None:
        """Stop all members for good."""
        for one in self.members:
            one.stop()


def missing(packages: Mapping[str, str]) -> str:
    """Return a sentence that says which of these packages to install; empty if none is missing."""
    if sys.platform != "linux":
        return "servers are started on Linux alone, where they die with whoever started them"
    lacking = {package: thing for thing, package in packages.items() if not _is_installed(thing)}
    if not lacking:
        return ""
    things = " and ".join(lacking.values())
    return f"{things} cannot be found: install the Debian package {' and '.join(lacking)}"


def _is_installed(thing: str) -> bool:
    if "/" in thing:
        return bool(glob.glob(thing))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return shutil.which(thing) is not None


def downloaded(program: str) -> Path | None:
    """Return the path of a program that `tools/newer_servers.py` has installed, or None."""
    return next(Path(sys.prefix).glob(f"servers/*/bin/{program}"), None)


def run_as(account: str, *command: str) -> None:
    """Run a command that builds a data directory, as the server's account; raise if it fails."""
    done = subprocess.run(
        ["setpriv", *_setpriv_options(account), "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}")


_chosen: set[int] = set()
"""Ports that were handed out before.

They are not handed out again, because a server that is not started yet does not listen on its port.
"""


def free_ports(count: int) -> list[int]:
    """Return free ports, all different, and none of which was returned before."""
    ports: list[int] = []
    with ExitStack() as tried:  # keep all sockets bound, or the kernel may assign a port twice
        while len(ports) < count:
            one = tried.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            if port not in _chosen:
                _chosen.add(port)
                ports.append(port)
    return ports


@cache
def _built(kind: type[Server]) -> Path:
    """Return the data directory that is copied for each server of this kind."""
    builder = next(one for one in kind.mro() if "build" in vars(one))

    def build(directory: Path) -> None:
        if _setpriv_options(kind.account):
            shutil.chown(directory, kind.account)
        kind.build(directory / "data")
        if _setpriv_options(kind.account):
            shutil.chown(directory / "data", kind.account)

    name = f"{kind.kind}-{builder.__module__}-{builder.__qualname__}-{kind.account}"
    return made_once(name.replace(".", "-"), build) / "data"


def _directory(name: str, account: str) -> Path:
    directory = run_directory(f"lockfast-{name}-")
    if _setpriv_options(account):
        shutil.chown(directory, account)
    return directory


def _setpriv_options(account: str) -> list[str]:
    """Return the setpriv options that drop root privileges."""
    if not account or os.geteuid() != 0:
        return []
    return ["--reuid", account, "--regid", account, "--init-groups"]
