"""A process that has imported what clients need, and forks one of them at each request.

To import all of it anew takes a client longer than to begin. The fork server of `multiprocessing`
will not do: it reaps a client before the run has heard of its end, when a signal may already meet
whoever got its number next; it leaves clients behind where the run is killed; and it ends them
without much of what an interpreter does at its end, which is on trial too.

It has one thread, and does nothing but what it is asked for. Its clients die with it, and it ends
with the run, however that ends.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lockfast.challenge.clients.messages import HungUp, hear, say
from lockfast.challenge.clients.order import Order
from lockfast.challenge.clients.signals import die_with
from lockfast.challenge.contender import made_by

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

LOOKING = 1.0
"""How often it looks whether the run is still there: what the run has forked may keep its end of
the socket open for longer."""

STREAMS = 2
"""What a client is given: where it writes what it says, and what is closed when it ends."""


@dataclass(frozen=True, slots=True)
class Start:
    """A client that is asked for, and where it is to find itself."""

    order: Order
    environment: Mapping[str, str]
    path: Sequence[str]
    """Where its modules are."""
    directory: str

    def told(self) -> dict[str, Any]:
        """Return it as values."""
        return asdict(self)

    @classmethod
    def heard(cls, told: dict[str, Any]) -> Start:
        """Return what was told."""
        return cls(**{**told, "order": Order(**told["order"])})


class ForkServer:
    """What stands at the other end of the socket from the run."""

    def __init__(self, way: socket.socket, *, parent: int) -> None:
        self._way = way
        self._parent = parent
        self._fleets: dict[int, str] = {}
        """Of which fleet each client is that nobody has asked the end of."""

    def serve(self) -> Order:
        """Do what is asked; only in a client does this return, with its order."""
        while True:
            try:
                (verb, *asked), streams = self._next()
            except HungUp:
                self._end()
            if verb == "start":
                start, fleet = Start.heard(asked[0]), asked[1]
                import_for(start)
                server = os.getpid()
                # What is there by now is nobody's rubbish: to collect it would only copy it.
                gc.freeze()
                pid = os.fork()
                if pid == 0:
                    self._way.detach()
                    die_with(server)
                    move_in(start, *streams)
                    return start.order
                self._fleets[pid] = fleet
                for one in streams:
                    os.close(one)
                self._answer(pid)
            else:
                self._answer(getattr(self, f"_{verb}")(*asked))

    def _next(self) -> tuple[Any, list[int]]:
        while not select.select([self._way], [], [], LOOKING)[0]:
            if os.getppid() != self._parent:
                raise HungUp
        return hear(self._way, descriptors=STREAMS)

    def _answer(self, answer: object) -> None:
        with suppress(HungUp):  # the next look finds it too
            say(self._way, answer)

    # -- what is asked -----------------------------------------------------------------------

    def _ended(self, pid: int) -> int | None:
        """Return with which status a client has ended, if it has; its number is free from then."""
        found, status = os.waitpid(pid, os.WNOHANG)
        if not found:
            return None
        del self._fleets[pid]
        return os.waitstatus_to_exitcode(status)

    def _stopped(self, pid: int) -> None:
        """Return when no thread of it runs any more, or when it has ended."""
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def _gone(self, fleet: str) -> None:
        """Kill all clients of a fleet, also those that the run has not heard of."""
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
    """Import what the client is about to use; what cannot be imported, it says itself."""
    sys.path[:] = start.path
    # Whatever it is, a SystemExit of a module too: it is raised again where the client imports it,
    # and would here end the server of all others.
    with suppress(BaseException):
        make = made_by(start.order.make)
        if hasattr(make, "imports"):
            make.imports(start.order.url)


def move_in(start: Start, log: int, life: int) -> None:
    """Make of a forked process a client as if it had been started by itself.

    `life` stays open, and nobody asks for it again: that it is closed tells the run of the end. So
    a process that the client forks lets go of it at once, and those that this one forks have none.
    """
    kept = [life]

    def let_go() -> None:
        while kept:
            os.close(kept.pop())

    os.register_at_fork(after_in_child=let_go)
    os.setsid()  # Ctrl-C is the run's; it ends its clients in its own way
    nothing = os.open(os.devnull, os.O_RDONLY)
    for new, old in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(new, old)
    os.close(nothing)
    os.close(log)
    os.environ.clear()
    os.environ.update(start.environment)
    os.chdir(start.directory)
