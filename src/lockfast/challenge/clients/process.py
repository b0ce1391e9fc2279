"""The process of one client, as the run sees it, and the fork server that it comes from.

Only who asks for the end of a client gives its number away. So a signal never meets another
process, as little as by `subprocess.Popen`.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from lockfast.challenge.clients.fork_server import Start
from lockfast.challenge.clients.messages import HungUp, hear, say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lockfast.challenge.clients.order import Order

REAPING = 0.001
"""Between two looks for the status of one whose descriptors are closed already."""
LONG = 60.0
"""At a time, for whoever waits for as long as it takes."""


class ClientFailed(RuntimeError):
    """A client that cannot even begin, and what it said."""


class ClientProcess:
    """One that was forked."""

    def __init__(self, server: _Server, pid: int, life: int) -> None:
        self.pid = pid
        self._server = server
        self._life: int | None = life
        self._status: int | None = None
        self._number = threading.Lock()
        """Held while it is given away, and while something is sent to it."""

    def poll(self) -> int | None:
        """Return with which status it has ended, less than 0 for a signal; None while it lives."""
        with self._number:
            if self._status is None and self._life is not None and _is_over(self._life, 0.0):
                self._status = self._server.ask("ended", self.pid)
            return self._status

    def wait(self, timeout: float) -> int | None:
        """Return the same, when it has ended or when the time is up."""
        deadline = time.monotonic() + timeout
        if self._life is not None:
            _is_over(self._life, timeout)
        while (status := self.poll()) is None and time.monotonic() < deadline:
            time.sleep(REAPING)
        return status

    def ended(self) -> int:
        """Return it when it has ended."""
        while (status := self.wait(LONG)) is None:
            pass
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send it, unless it has ended."""
        with self._number:
            if self._status is None and not self._server.is_over:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a crash would, be it stopped or not."""
        self.send_signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Come back when all its threads stand still: the signal alone lets some finish."""
        self.send_signal(signal.SIGSTOP)
        if self.poll() is None:
            self._server.ask("stopped", self.pid)

    def close(self) -> None:
        """Look for it no more."""
        life, self._life = self._life, None
        if life is not None:
            os.close(life)


def start_client(order: Order, *, log: Path, fleet: str) -> ClientProcess:
    """Return a client that has its order; what it says goes to the log."""
    server = _serving()
    start = Start(order, _environment(), [*filter(None, sys.path)], os.getcwd())  # noqa: PTH109 - as text
    life, closed_with_it = os.pipe()
    try:
        with log.open("ab") as said:
            pid = server.ask(
                "start", start.told(), fleet, descriptors=(said.fileno(), closed_with_it)
            )
    except BaseException:
        os.close(life)
        raise
    finally:
        os.close(closed_with_it)
    return ClientProcess(server, pid, life)


def end_clients(fleet: str) -> None:
    """Return when no client of that fleet lives, not even one that nobody was told of."""
    with suppress(ClientFailed):  # they ended with their server
        server = _server(os.getpid())
        if not server.is_over:
            server.ask("gone", fleet)


def _is_over(life: int, timeout: float) -> bool:
    looked_at = select.poll()
    looked_at.register(life, select.POLLIN)
    return bool(looked_at.poll(1000.0 * timeout))


class _Server:
    """The run's end of the socket; what is asked is answered before the next may ask."""

    def __init__(self) -> None:
        self._way, its = socket.socketpair()
        self._words = tempfile.TemporaryFile()  # noqa: SIM115 - for as long as it lives
        self._asking = threading.Lock()
        self.is_over: bool = False
        with its:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [
                    *(sys.executable, "-P", "-X", "faulthandler"),
                    *("-m", "lockfast.challenge.clients", str(os.getpid())),
                ],
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._words,
                start_new_session=True,  # Ctrl-C is the run's
                env=_environment(),
            )

    def ask(self, *words: object, descriptors: Sequence[int] = ()) -> Any:  # noqa: ANN401 - as asked
        with self._asking:
            if self.is_over:
                raise ClientFailed("the clients have ended with their server")
            try:
                say(self._way, words, descriptors=descriptors)
                answer, _ = hear(self._way)
            except HungUp as error:
                raise ClientFailed(f"the clients' server has ended: {self._killed()}") from error
            except BaseException:  # Ctrl-C: nobody knows what was begun, nor whose the answer is
                self._killed()
                raise
        return answer

    def end(self) -> None:
        self.is_over = True
        self._way.close()
        self._process.wait()
        self._words.close()

    def _killed(self) -> str:
        """Return what it said; its clients die with it, whatever it was about to do."""
        self._process.kill()
        self._words.seek(0)
        said = self._words.read().decode(errors="replace").strip()[-2000:]
        self.end()
        return said or "it said nothing"


@cache
def _server(pid: int) -> _Server:
    """Return that of this very process; a child that it forks has no part in its parent's."""
    del pid
    one = _Server()
    atexit.register(one.end)
    return one


def _serving() -> _Server:
    if _server(os.getpid()).is_over:
        _server.cache_clear()
    return _server(os.getpid())


def _environment() -> dict[str, str]:
    """Return ours, with which a client finds what the run finds."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
