"""A client process as the run sees it, and the fork server that starts client processes.

A client is reaped only when the run asks for its exit status, and until then its pid is not reused.
So a signal never reaches another process, just as with `subprocess.Popen`.
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

from lockfast_challenge.clients.fork_server import HungUp, Start, hear, say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lockfast_challenge.clients.fork_server import Order

REAP_POLL_SECONDS = 0.001
"""Pause between two requests for the exit status of a client whose pipe is closed, in seconds."""
WAIT_TIMEOUT_SECONDS = 60.0
"""Timeout of a single wait, in seconds; a loop repeats the wait until the client has ended."""


class ClientFailed(RuntimeError):
    """A client cannot begin, or the fork server has ended; the message contains the output."""


class ClientProcess:
    """One forked client."""

    def __init__(self, server: _ForkServer, pid: int, life: int) -> None:
        self.pid = pid
        self._server = server
        self._life: int | None = life
        self._status: int | None = None
        self._number = threading.Lock()
        """Held during a signal, and during the reaping of the client, which frees its pid."""

    def poll(self) -> int | None:
        """Return the client's exit status, negative for a signal; None while the client lives."""
        with self._number:
            if self._status is None and self._life is not None and _is_over(self._life, 0.0):
                self._status = self._server.ask("ended", self.pid)
            return self._status

    def wait(self, timeout: float) -> int | None:
        """Wait for the client to end; return its exit status, or None after the timeout."""
        deadline = time.monotonic() + timeout
        if self._life is not None:
            _is_over(self._life, timeout)
        while (status := self.poll()) is None and time.monotonic() < deadline:
            time.sleep(REAP_POLL_SECONDS)
        return status

    def ended(self) -> int:
        """Wait until the client has ended, and return its exit status."""
        while (status := self.wait(WAIT_TIMEOUT_SECONDS)) is None:
            pass
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        with self._number:
            if self._status is None and not self._server.is_over:
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End the client as a crash would, whether it is stopped or not."""
        self.send_signal(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop the client and return when all its threads have stopped.

        Sending the signal without waiting would let some threads finish a request.
        """
        self.send_signal(signal.SIGSTOP)
        if self.poll() is None:
            self._server.ask("stopped", self.pid)

    def close(self) -> None:
        """Stop watching for the end of the client."""
        life, self._life = self._life, None
        if life is not None:
            os.close(life)


def start_client(order: Order, *, log: Path, fleet: str) -> ClientProcess:
    """Return a client that has received its order; its output goes to the log."""
    server = _running_server()
    start = Start(order, _environment(), [*filter(None, sys.path)], os.getcwd())  # noqa: PTH109 - as text
    life, client_end = os.pipe()
    try:
        with log.open("ab") as said:
            pid = server.ask("start", start.told(), fleet, descriptors=(said.fileno(), client_end))
    except BaseException:
        os.close(life)
        raise
    finally:
        os.close(client_end)
    return ClientProcess(server, pid, life)


def end_clients(fleet: str) -> None:
    """Kill all clients of this fleet, including clients whose start was never reported."""
    with suppress(ClientFailed):  # the clients ended with their server
        server = _server(os.getpid())
        if not server.is_over:
            server.ask("gone", fleet)


def _is_over(life: int, timeout: float) -> bool:
    poller = select.poll()
    poller.register(life, select.POLLIN)
    return bool(poller.poll(1000.0 * timeout))


class _ForkServer:
    """The run's end of the socket; each request is answered before the next one is sent."""

    def __init__(self) -> None:
        self._socket, its = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `end`
        self._asking = threading.Lock()
        self.is_over: bool = False
        with its:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [
                    *(sys.executable, "-P", "-X", "faulthandler"),
                    *("-m", "lockfast_challenge.clients", str(os.getpid())),
                ],
                stdin=its.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._output,
                start_new_session=True,  # Ctrl-C must reach only the run
                env=_environment(),
            )

    def ask(self, *words: object, descriptors: Sequence[int] = ()) -> Any:  # noqa: ANN401 - as asked
        with self._asking:
            if self.is_over:
                raise ClientFailed("the clients have ended with their server")
            try:
                say(self._socket, words, descriptors=descriptors)
                answer, _ = hear(self._socket)
            except HungUp as error:
                raise ClientFailed(f"the clients' server has ended: {self._killed()}") from error
            # After Ctrl-C it is unknown what was started, and which request the next reply answers.
            except BaseException:
                self._killed()
                raise
        return answer

    def end(self) -> None:
        self.is_over = True
        self._socket.close()
        self._process.wait()
        self._output.close()

    def _killed(self) -> str:
        """Kill the server and return its output; its clients die with it."""
        self._process.kill()
        self._output.seek(0)
        said = self._output.read().decode(errors="replace").strip()[-2000:]
        self.end()
        return said or "it said nothing"


@cache
def _server(pid: int) -> _ForkServer:
    """Return the fork server of this process; a forked child must not use its parent's server."""
    del pid
    one = _ForkServer()
    atexit.register(one.end)
    return one


def _running_server() -> _ForkServer:
    if _server(os.getpid()).is_over:
        _server.cache_clear()
    return _server(os.getpid())


def _environment() -> dict[str, str]:
    """Return our environment with our module path, so that a client finds the same modules."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
