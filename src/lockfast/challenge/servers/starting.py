"""Real servers of any store: on free ports of this machine, gone with the run.

A store's server is its command line, and how one knows that it serves:

    class EtcdServer(Server):
        kind = "etcd"

        def command(self) -> list[str]:
            return ["etcd", "--data-dir", str(self.data), …]

        def serves(self) -> bool:
            …

Where the data are dear to make, `build` makes them once. A server that cannot be started says
why; in a test that fails it, and nothing is skipped.
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

from lockfast.challenge.eventually import eventually
from lockfast.challenge.processes import family, freeze_family, is_dead, signal_all, thaw_family
from lockfast.challenge.servers.leaving_nothing import run_directory
from lockfast.challenge.servers.made_once import made_once

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOWN = 4000
"""So many characters of a long log are shown from its beginning, and as many from its end."""


class CannotStart(RuntimeError):
    """There is no such server on this machine; the sentence says what to install."""


class Started:
    """What is started at the beginning of a block, and is gone at its end."""

    def start(self) -> Self:
        """Return once it serves."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it for good."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Server(Started):
    """One server in a directory of its own, which outlives its process until `stop`."""

    kind = "server"
    """What it is called in paths and complaints."""

    port: int
    """Where it listens; chosen anew if somebody else was quicker."""

    packages: ClassVar[Mapping[str, str]] = {}
    """What it is made of: programs, or paths in which * is any version, each with the Debian
    package that brings it."""

    patience: float = 60.0
    """One of this machine that does not serve by then will not."""

    account = ""
    """Whom it runs as where we are root, for those that refuse to be root."""

    ends_by = signal.SIGKILL
    """What it is stopped by; others than this are for those that would leave something behind."""

    shuts_down_by = signal.SIGTERM
    """What lets it end in order, and at once."""

    def __init__(self, *, environment: dict[str, str] | None = None) -> None:
        self.directory: Path = _directory(self.kind, self.account)
        self.environment = environment
        self.choose_ports()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.stop)

    # -- what a store says of its server ---------------------------------------------------

    def command(self) -> list[str]:
        """Return what is run; what it has to find in its directory may be written here."""
        raise NotImplementedError

    def serves(self) -> bool:
        """Return whether it does what it is for; asked again and again while it starts."""
        raise NotImplementedError

    def choose_ports(self) -> None:
        """Choose where it listens; again, if somebody took a port before the server had it."""
        [self.port] = free_ports(1)

    @classmethod
    def build(cls, data: Path) -> None:
        """Make the data directory that it starts with the first time; others get a copy."""
        data.mkdir()

    # -- what a test may do with it --------------------------------------------------------

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Where it may keep what it is told."""
        return self.directory / "data"

    def start(self) -> Self:
        """Return once it serves; started again it has the same port and directory."""
        for is_last in (False, False, True):
            self.spawn()
            if self.until_it_serves(raises=is_last):
                break
            # Somebody took the port between our choice and the server's bind.
            self.choose_ports()
        return self

    def spawn(self) -> None:
        """Begin to start it, and do not wait; CannotStart says what this machine lacks for it."""
        if lacks := missing(self.packages):
            raise CannotStart(lacks)
        if not self.data.exists():
            # With its owner: who runs as an account of its own has built it as that.
            built = _built(type(self))  # type: ignore[arg-type]  # a class can be hashed
            copy = ["cp", "--archive", "--reflink=auto", str(built), str(self.data)]
            subprocess.run(copy, check=True)
        with (self.directory / "log").open("ab") as log:
            # Dies with the thread that started it, also when the run is killed.
            self._process = subprocess.Popen(
                ["setpriv", *_as(self.account), "--pdeathsig", "KILL", "--", *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.directory,
                env=self.environment,
            )

    def until_it_serves(self, *, raises: bool = True) -> bool:
        """Return once it serves; false if its process has ended instead, where that is no error."""
        deadline = time.monotonic() + self.patience
        while not self.serves():
            if not self.is_running and not raises:
                return False
            if not self.is_running or time.monotonic() > deadline:
                raise RuntimeError(f"{self.kind} did not start:\n{self.log()}")
            time.sleep(0.01)
        return True

    def log(self) -> str:
        """Return the beginning and the end of what it wrote: the reason stands in one of them."""
        text = (self.directory / "log").read_text(errors="replace")
        return text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]}\n…\n{text[-SHOWN:]}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running server."""
        if self._process is None:
            raise RuntimeError(f"this {self.kind} was not started")
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether there is a process, frozen or not."""
        return self._process is not None and self._process.poll() is None

    def pause(self) -> None:
        """Freeze the process, and those that serve for it."""
        freeze_family(self.process)

    def resume(self) -> None:
        """Let it run again."""
        thaw_family(self.process)

    def shut_down(self) -> None:
        """End it in order: its clients are told that it goes."""
        self.process.send_signal(self.shuts_down_by)
        self.process.wait(self.patience)

    def kill(self) -> None:
        """End it as a crash would."""
        pids = family(self.process.pid)
        signal_all(pids, signal.SIGKILL)
        self.process.wait()
        # A child that is not dead yet would still be connected to.
        eventually(lambda: all(map(is_dead, pids)), what=f"all of {self.kind} is dead")

    def stop(self) -> None:
        """End it for good, and delete what it kept."""
        if self.is_running and self.ends_by != signal.SIGKILL:
            self.resume()
            self.process.send_signal(self.ends_by)
            with suppress(subprocess.TimeoutExpired):  # then it ends as the others do
                self.process.wait(self.patience)
        if self.is_running:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
        atexit.unregister(self.stop)


S = TypeVar("S", bound=Server)


class Three(Started, Generic[S]):
    """Three servers that belong together, and elect one that leads."""

    kind = "group"
    """What it is called in complaints."""

    scheme = ""
    """Of the URL that names it."""

    def __init__(self) -> None:
        self.members: list[S] = []

    # -- what a store says of them ---------------------------------------------------------

    def make(self) -> list[S]:
        """Return the three, each told who the others are, and not started."""
        raise NotImplementedError

    def until_whole(self) -> None:
        """Return once one leads and the others follow it."""
        raise NotImplementedError

    def leader(self) -> S:
        """Return who leads now; wait if an election is on."""
        raise NotImplementedError

    # -- what a test may do with them ------------------------------------------------------

    def start(self) -> Self:
        """Return once all three serve."""
        for is_last in (False, False, True):
            self.members = self.make()
            for one in self.members:
                one.spawn()
            if self._is_whole_in_time(raises=is_last):
                break
            self.stop()  # somebody took one of the nine ports
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
        """All members, with commas."""
        return ",".join(one.address for one in self.members)

    @property
    def url(self) -> str:
        """The URL that names all members."""
        return f"{self.scheme}://{self.address}"

    def url_from(self, first: S) -> str:
        """Return the URL that names this member before the others."""
        hosts = first.address, *(one.address for one in self.members if one is not first)
        return f"{self.scheme}://{','.join(hosts)}"

    def heal(self) -> Self:
        """Bring back whoever is dead or frozen, and return once it is whole."""
        for one in self.members:
            if one.is_running:
                one.resume()
            else:
                one.spawn()
        self.until_whole()
        return self

    def stop(self) -> None:
        """End all of them for good."""
        for one in self.members:
            one.stop()


def missing(packages: Mapping[str, str]) -> str:
    """Return what to install of these, as a sentence; nothing if all of them are here."""
    if sys.platform != "linux":
        return "servers are started on Linux alone, where they die with whoever started them"
    lacking = {package: thing for thing, package in packages.items() if not _is_here(thing)}
    if not lacking:
        return ""
    things = " and ".join(lacking.values())
    return f"{things} cannot be found: install the Debian package {' and '.join(lacking)}"


def _is_here(thing: str) -> bool:
    if "/" in thing:
        return bool(glob.glob(thing))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return shutil.which(thing) is not None


def downloaded(program: str) -> Path | None:
    """Return a program that `tools/newer_servers.py` has put into the virtual environment."""
    return next(Path(sys.prefix).glob(f"servers/*/bin/{program}"), None)


def run_as(account: str, *command: str) -> None:
    """Run what builds a data directory, as whom the server will run; a failure says why."""
    done = subprocess.run(
        ["setpriv", *_as(account), "--", *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}")


_chosen: set[int] = set()
"""Ports that were given before: a server that is not started yet does not listen on its own."""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, all different, and none of them a second time."""
    ports: list[int] = []
    with ExitStack() as tried:  # all at once, or the next may be the one that was just let go
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
    """Return the data directory of which each server of this kind gets a copy."""
    builder = next(one for one in kind.mro() if "build" in vars(one))

    def build(directory: Path) -> None:
        if _as(kind.account):
            shutil.chown(directory, kind.account)
        kind.build(directory / "data")
        if _as(kind.account):
            shutil.chown(directory / "data", kind.account)

    name = f"{kind.kind}-{builder.__module__}-{builder.__qualname__}-{kind.account}"
    return made_once(name.replace(".", "-"), build) / "data"


def _directory(name: str, account: str) -> Path:
    directory = run_directory(f"lockfast-{name}-")
    if _as(account):
        shutil.chown(directory, account)
    return directory


def _as(account: str) -> list[str]:
    """Return the options of setpriv that let go of root."""
    if not account or os.geteuid() != 0:
        return []
    return ["--reuid", account, "--regid", account, "--init-groups"]
