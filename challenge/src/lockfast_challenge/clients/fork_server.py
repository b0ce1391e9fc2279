"""Forks a client on each request, so that it takes only milliseconds to start a client."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lockfast_challenge.clients.player import die_with
from lockfast_challenge.contender import made_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn


# Messages between a run and its fork server: values as JSON, with descriptors attached.

LENGTH_BYTES = 4
"""Size of a message's length prefix, in bytes."""


class HungUp(EOFError):
    """The process at the other end of the socket has closed it."""


def say(sock: socket.socket, words: object, *, descriptors: Sequence[int] = ()) -> None:
    """Send a message; raise HungUp if the other side is gone."""
    message = json.dumps(words).encode()
    try:
        socket.send_fds(sock, [len(message).to_bytes(LENGTH_BYTES, "big")], descriptors)
        sock.sendall(message)
    except ConnectionError as error:
        raise HungUp from error


def hear(sock: socket.socket, *, descriptors: int = 0) -> tuple[Any, list[int]]:
    """Return a message and its descriptors; raise HungUp if the other side is gone.

    At most `descriptors` descriptors are received.
    """
    try:
        # The length and the descriptors arrive together, since they were sent together.
        length, found, _, _ = socket.recv_fds(
            sock, LENGTH_BYTES, descriptors, flags=socket.MSG_CMSG_CLOEXEC
        )
        message = b""
        while length and len(message) < int.from_bytes(length, "big"):
            piece = sock.recv(int.from_bytes(length, "big") - len(message))
            if not piece:
                raise HungUp
            message += piece
    except ConnectionError as error:
        raise HungUp from error
    if not length:
        raise HungUp
    return json.loads(message), found


# The order that one client receives when it starts.
#
# The order is not passed on the command line, which every user of the machine can read, because its
# URL may contain a password.


@dataclass(frozen=True, slots=True)
class Order:
    """The client's identity, where the client connects, and what it does until SIGTERM."""

    client: str
    """The client's name in the history: "2", or "2.1" for its replacement."""
    make: str
    """The class of the client's contender, as "module:name"."""
    url: str
    names: Sequence[str]
    """The names to contend for; the client requests one name at a time."""
    workload: str
    ttl: float
    seed: int
    diary: str
    """The file in which the client records what it sees."""
    last_words: str
    """The file for counts of descriptors and threads, from before and after the client's work."""
    resource: str
    """The socket of the resource behind the lock."""
    clock_ahead: float = 0.0


PARENT_POLL_SECONDS = 1.0
"""How often the server checks whether the run still exists, in seconds.

Waiting for the socket to close is not enough, because processes that the run has forked may keep
the run's end of the socket open for longer.
"""

CLIENT_DESCRIPTORS = 2
"""Number of descriptors that a client receives: its log, and a pipe that closes when it ends."""


@dataclass(frozen=True, slots=True)
class Start:
    """A request to start a client, and the environment in which it starts."""

    order: Order
    environment: Mapping[str, str]
    path: Sequence[str]
    """The client's `sys.path`."""
    directory: str

    def told(self) -> dict[str, Any]:
        """Return the request as JSON values."""
        return asdict(self)

    @classmethod
    def from_values(cls, told: dict[str, Any]) -> Start:
        """Return the request from its JSON values."""
        return cls(**{**told, "order": Order(**told["order"])})


class ForkServer:
    """The server at the other end of the run's socket."""

    def __init__(self, sock: socket.socket, *, parent: int) -> None:
        self._sock = sock
        self._parent = parent
        self._fleets: dict[int, str] = {}
        """Maps the pid of each client that has not been reaped to the client's fleet."""

    def serve(self) -> Order:
        """Serve requests; return only in a forked client, with the client's order."""
        while True:
            try:
                (verb, *asked), streams = self._next()
            except HungUp:
                self._end()
            if verb == "start":
                start, fleet = Start.from_values(asked[0]), asked[1]
                import_for(start)
                server = os.getpid()
                # No object that exists so far is garbage, so a garbage collection in a client would
                # only copy the memory of these objects.
                gc.freeze()
                pid = os.fork()
                if pid == 0:
                    self._sock.detach()
                    die_with(server)
                    become_client(start, *streams)
                    return start.order
                self._fleets[pid] = fleet
                for one in streams:
                    os.close(one)
                self._answer(pid)
            else:
                self._answer(getattr(self, f"_{verb}")(*asked))

    def _next(self) -> tuple[Any, list[int]]:
        while not select.select([self._sock], [], [], PARENT_POLL_SECONDS)[0]:
            if os.getppid() != self._parent:
                raise HungUp
        return hear(self._sock, descriptors=CLIENT_DESCRIPTORS)

    def _answer(self, answer: object) -> None:
        with suppress(HungUp):  # the next read raises HungUp too
            say(self._sock, answer)

    # -- requests ------------------------------------------------------------------------------

    def _ended(self, pid: int) -> int | None:
        """Reap a client if it has ended, which frees its pid; return its exit status, or None."""
        found, status = os.waitpid(pid, os.WNOHANG)
        if not found:
            return None
        del self._fleets[pid]
        return os.waitstatus_to_exitcode(status)

    def _stopped(self, pid: int) -> None:
        """Return when all threads of the client have stopped, or when the client has ended."""
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _gone(self, fleet: str) -> None:
        """Kill all clients of a fleet, including clients whose start was never reported."""
        pids = [pid for pid, one in self._fleets.items() if one == fleet]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in pids:
            os.waitpid(pid, 0)
            del self._fleets[pid]

    def _end(self) -> NoReturn:
        for fleet in set(self._fleets.values()):
            self._gone(fleet)
        os._exit(0)


def import_for(start: Start) -> None:
    """Import the modules that the client will use; leave it to the client to report a failure."""
    sys.path[:] = start.path
    # Suppress any exception, even a module's SystemExit, because here it would end the server of
    # all other clients. The exception is raised again when the client imports that module.
    with suppress(BaseException):
        make = made_by(start.order.make)
        if hasattr(make, "imports"):
            make.imports(start.order.url)


def become_client(start: Start, log: int, life: int) -> None:
    """Turn a forked process into a client as if it had been started on its own.

    `life` is one end of a pipe that nothing is written to; when the pipe closes, the run knows that
    the client has ended. So a process that the client forks closes its copy of `life` at once, and
    passes no copy on to its own children.
    """
    kept = [life]

    def let_go() -> None:
        while kept:
            os.close(kept.pop())

    os.register_at_fork(after_in_child=let_go)
    os.setsid()  # Ctrl-C must reach only the run, which ends its clients itself
    nothing = os.open(os.devnull, os.O_RDONLY)
    for new, old in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(new, old)
    os.close(nothing)
    os.close(log)
    os.environ.clear()
    os.environ.update(start.environment)
    os.chdir(start.directory)
