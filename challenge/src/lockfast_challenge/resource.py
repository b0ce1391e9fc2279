"""The resource behind the lock: a counter or a set, kept by the run itself, outside the store.

Each client reads the value, adds one to the counter or an element to the set, and writes the new
value back. If a client writes without having read the previous write, the previous write is lost.
The lock must prevent this.
"""

from __future__ import annotations

import json
import socket
import socketserver
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockfast.runtime.clock import Clock
from lockfast_challenge.outcome import Write

if TYPE_CHECKING:
    from typing import Self

    from lockfast_challenge.outcome import Workload

ACCEPT_POLL_SECONDS = 0.02
"""How often the server checks whether it should stop, in seconds."""


class TooLate(Exception):
    """The resource has seen a larger token."""


class Resource:
    """One counter or one set, with or without a token check, served on a Unix socket."""

    def __init__(self, workload: Workload) -> None:
        self._is_guarded = workload.is_guarded
        self._value: Any = [] if workload.kind == "set" else 0
        self._largest = -1
        self._state = threading.Lock()
        self.writes: list[Write] = []

    def __enter__(self) -> Self:
        # The socket is not in the run's folder, whose path may be too long for a socket.
        self._folder = tempfile.TemporaryDirectory(prefix="lockfast-")
        self.address: str = str(Path(self._folder.name) / "resource")
        self._server = _ResourceServer(self.address, _Session)
        self._server.resource = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(ACCEPT_POLL_SECONDS,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._folder.cleanup()

    def read(self, *, token: int | None) -> Any:  # noqa: ANN401 - a number or a list
        """Return the value; if tokens are checked, refuse smaller tokens from now on."""
        with self._state:
            self._check_token(token)
            return self._value

    def write(self, value: Any, *, client: str, hold: int, token: int | None) -> None:  # noqa: ANN401
        """Store the value, even if that overwrites another update; record every attempt."""
        with self._state:
            is_accepted = self._accepts(token)
            is_lost = is_accepted and not self._follows(value)
            self.writes.append(Write(Clock.now(), client, hold, token, is_accepted, is_lost))
            self._check_token(token)
            self._value = value

    def _follows(self, value: Any) -> bool:  # noqa: ANN401
        if isinstance(self._value, list):
            return set(self._value) <= set(value)
        return bool(value == self._value + 1)

    def _check_token(self, token: int | None) -> None:
        if not self._accepts(token):
            raise TooLate(f"token {token} comes after {self._largest}")
        if token is not None:
            self._largest = max(self._largest, token)

    def _accepts(self, token: int | None) -> bool:
        return not self._is_guarded or (token is not None and token >= self._largest)


class _ResourceServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False  # a frozen client would keep the run from ending
    resource: Resource


class _Session(socketserver.StreamRequestHandler):
    server: _ResourceServer

    def handle(self) -> None:
        try:
            for line in self.rfile:
                self.wfile.write(json.dumps(self._reply_to(json.loads(line))).encode() + b"\n")
        except (OSError, ValueError):
            return  # the client was killed in the middle of a request

    def _reply_to(self, asked: dict[str, Any]) -> dict[str, Any]:
        resource = self.server.resource
        act = asked.pop("act")
        try:
            if act == "read":
                return {"value": resource.read(**asked)}
            resource.write(**asked)
        except TooLate as error:
            return {"refused": str(error)}
        return {"value": None}


class ResourceClient:
    """A client's connection to the resource, opened before any fault strikes the client."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)
        self._answers = self._socket.makefile("rb")

    def read(self, *, token: int | None) -> Any:  # noqa: ANN401
        """Return the value; raise TooLate if the resource has seen a larger token."""
        return self._ask(act="read", token=token)

    def write(self, value: Any, *, client: str, hold: int, token: int | None) -> None:  # noqa: ANN401
        """Write the value; raise TooLate as `read` does."""
        self._ask(act="write", value=value, client=client, hold=hold, token=token)

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def _ask(self, **asked: object) -> Any:  # noqa: ANN401
        self._socket.sendall(json.dumps(asked).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        if "refused" in answer:
            raise TooLate(answer["refused"])
        return answer["value"]
