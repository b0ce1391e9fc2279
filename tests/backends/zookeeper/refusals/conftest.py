"""Servers that refuse, and a way to hear both flavours say so."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour

from holdfast import LockError

TIMEOUT = 0.4
"""The time for connecting and asking; nobody may take longer.

Who is refused by an answer gets more (`within`): a slow one would be told as no answer.
"""

PASSWORD = "open-sesame-4711"


@pytest.fixture(params=FLAVOURS)
def flavour(request) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


@pytest.fixture
def namespace() -> str:
    """A namespace of this test alone: the server is shared."""
    return f"test-{os.urandom(4).hex()}"


@pytest.fixture
def refusal(caplog) -> Iterator[Callable[..., LockError]]:
    """Return the error of an acquire, after a look at all that was said; of both flavours."""
    caplog.set_level(logging.DEBUG)
    flavours = [Flavour(one) for one in FLAVOURS]

    def provoke(url: str, *, within: float = TIMEOUT, **options: Any) -> LockError:
        opened = [one.locks(url, request_timeout=within, **options) for one in flavours]
        asked = [
            one.start(_refused, locks, within) for one, locks in zip(flavours, opened, strict=True)
        ]
        errors = [one.result(10) for one in asked]

        for error, locks in zip(errors, opened, strict=True):
            said = "".join(traceback.format_exception(error)) + repr(locks) + caplog.text
            assert PASSWORD not in said + repr(error.__dict__)
            assert "\n" not in str(error)
            assert url.rpartition("@")[2].rpartition("//")[2].partition("/")[0] in str(error)
        assert type(errors[0]) is type(errors[1])
        return errors[0]

    yield provoke
    for one in flavours:
        one.close()


def _refused(locks: Any, within: float) -> LockError:
    began = time.monotonic()
    with pytest.raises(LockError) as told:
        locks.lock("door").acquire(timeout=within)
    assert time.monotonic() - began < within + 1.0
    return told.value


class Talker:
    """A server that answers whatever it is told by what a test chose, or by nothing."""

    def __init__(self, *, greeting: bytes = b"", answer: bytes = b"") -> None:
        self._greeting = greeting
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.url = f"zookeeper://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=[connection], daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            connection.sendall(self._greeting)
            while connection.recv(65536):
                connection.sendall(self._answer)
        except OSError:
            return

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._connections:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its client was quicker
        for thread in self._threads:
            thread.join()
        for one in self._connections:
            one.close()


@pytest.fixture
def talker() -> Iterator[Callable[..., Talker]]:
    opened: list[Talker] = []

    def start(**options: Any) -> Talker:
        opened.append(Talker(**options))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    """A key with its certificate, and the certificate alone, signed by itself."""
    directory = tmp_path_factory.mktemp("tls")
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    key.write_text(key.read_text() + certificate.read_text())
    return key, certificate
