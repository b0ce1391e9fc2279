"""What is behind the lock: a counter and a set, which the run itself keeps, outside of the store.

Clients read it, and write back what they read with one more in it. Whoever writes without having
read what the last one wrote loses it an update: that is what the lock is for.
"""

from __future__ import annotations

import json
import socket
import socketserver
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockfast.challenge.outcome import Write
from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from typing import Self

    from lockfast.challenge.workloads import Workload

LOOKING = 0.02
"""How often the server looks whether it is to end."""


class TooLate(Exception):
    """The resource has seen a larger token."""


class Resource:
    """One counter or one set, behind the token check or not, on a Unix socket."""

    def __init__(self, workload: Workload) -> None:
        self._is_guarded = workload.is_guarded
        self._value: Any = [] if workload.kind == "set" else 0
        self._largest = -1
        self._state = threading.Lock()
        self.writes: list[Write] = []

    def __enter__(self) -> Self:
        # Not in the folder of the run, whose path may be longer than a socket's can be.
        self._folder = tempfile.TemporaryDirectory(prefix="lockfast-")
        self.address: str = str(Path(self._folder.name) / "resource")
        self._server = _Server(self.address, _Session)
        self._server.resource = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(LOOKING,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._folder.cleanup()

    def read(self, *, token: int | None) -> Any:  # noqa: ANN401 - a number or a list
        """Return what is there; where tokens are looked at, none below this is let in any more."""
        with self._state:
            self._let_in(token)
            return self._value

    def write(self, value: Any, *, client: str, hold: int, token: int | None) -> None:  # noqa: ANN401
        """Write what was read and one more; it is kept, be it right or not."""
        with self._state:
            is_accepted = self._is_let_in(token)
            is_lost = is_accepted and not self._follows(value)
            self.writes.append(Write(Clock.now(), client, hold, token, is_accepted, is_lost))
            self._let_in(token)
            self._value = value

    def _follows(self, value: Any) -> bool:  # noqa: ANN401
        if isinstance(self._value, list):
            return set(self._value) <= set(value)
        return bool(value == self._value + 1)

    def _let_in(self, token: int | None) -> None:
        if not self._is_let_in(token):
            raise TooLate(f"token {token} comes after {self._largest}")
        if token is not None:
            self._largest = max(self._largest, token)

    def _is_let_in(self, token: int | None) -> bool:
        return not self._is_guarded or (token is not None and token >= self._largest)


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False  # a frozen client would keep the run from its end
    resource: Resource


class _Session(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        try:
            for line in self.rfile:
                self.wfile.write(json.dumps(self._answer(json.loads(line))).encode() + b"\n")
        except (OSError, ValueError):
            return  # killed in the middle of a request

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
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
    """A client's connection to it, opened before anything is done to the client."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(address)
        self._answers = self._socket.makefile("rb")

    def read(self, *, token: int | None) -> Any:  # noqa: ANN401
        """Return what is there; raise TooLate if somebody with a larger token was there."""
        return self._ask(act="read", token=token)

    def write(self, value: Any, *, client: str, hold: int, token: int | None) -> None:  # noqa: ANN401
        """Write it; raise TooLate as above."""
        self._ask(act="write", value=value, client=client, hold=hold, token=token)

    def close(self) -> None:
        """Be gone."""
        self._answers.close()
        self._socket.close()

    def _ask(self, **asked: object) -> Any:  # noqa: ANN401
        self._socket.sendall(json.dumps(asked).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        if "refused" in answer:
            raise TooLate(answer["refused"])
        return answer["value"]
