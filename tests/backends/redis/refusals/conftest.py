"""Servers that refuse, and a way to hear both flavours say so."""

from __future__ import annotations

import logging
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from both_flavours import FLAVOURS, Flavour

from holdfast import LockError

TIMEOUT = 5.0
"""The time for connecting and asking; nobody may take longer.

A server that refuses by an answer has so much time to give it: one that was slow, on a busy
machine, would be told as one that gives none. For what never answers, say `within`.
"""

PASSWORD = "open-sesame-4711"


@pytest.fixture(params=FLAVOURS)
def flavour(request) -> Iterator[Flavour]:
    one = Flavour(request.param)
    yield one
    one.close()


@pytest.fixture
def refusal(flavour, caplog) -> Callable[..., LockError]:
    """Return the error of an acquire, after a look at all that was said."""
    caplog.set_level(logging.DEBUG)

    def provoke(url: str, *, within: float = TIMEOUT, **options: Any) -> LockError:
        locks = flavour.locks(url, request_timeout=within, **options)
        began = time.monotonic()
        with pytest.raises(LockError) as told:
            locks.lock("door").acquire(timeout=within)
        took = time.monotonic() - began

        text = str(told.value)
        said = "".join(traceback.format_exception(told.value)) + repr(locks) + caplog.text
        assert PASSWORD not in said + repr(told.value.__dict__)
        assert took < within + 1.0
        assert "\n" not in text
        assert url.rpartition("@")[2].partition("?")[0].partition("/")[0] in text
        return told.value

    return provoke


class Talker:
    """A server that answers each line, or each connection, by what a test chose."""

    def __init__(
        self, *, greeting: bytes = b"", answer: Callable[[bytes], bytes] | None = None
    ) -> None:
        self._greeting = greeting
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
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
            while data := connection.recv(65536):
                if self._answer is not None:
                    connection.sendall(self._answer(data))
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
