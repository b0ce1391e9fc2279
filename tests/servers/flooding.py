"""A proxy whose server fails in a special way: it sends endless data and answers nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Self

BLOCK = 65536


class Flooding:
    """Passes everything on until a request contains `which`; then it sends `flood` for ever.

    The bytes of `flood` are whole messages that the client has to read, but none of them is a
    reply.
    """

    def __init__(self, port: int, *, scheme: str, which: bytes, flood: bytes) -> None:
        self._target = "127.0.0.1", port
        self._which = which
        self._flood = flood * max(1, BLOCK // len(flood))
        self.is_flooding = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"{scheme}://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def flood(self) -> None:
        """Flood every connection from its next request on."""
        self._which = b""

    def stop(self) -> None:
        """End all connections, so that a client that keeps reading returns."""
        for one in self._sockets:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the client was faster
        for one in self._threads:
            one.join()
        for one in self._sockets:
            one.close()

    def _begin(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
            except OSError:
                return
            self._sockets += [client, server]
            flood_has_begun = threading.Event()
            self._begin(self._pass_requests, client, server, flood_has_begun)
            self._begin(self._pass_answers, client, server, flood_has_begun)

    def _pass_requests(
        self, client: socket.socket, server: socket.socket, flood_has_begun: threading.Event
    ) -> None:
        try:
            while data := client.recv(BLOCK):
                if self._which in data and not flood_has_begun.is_set():
                    flood_has_begun.set()
                    self.is_flooding.set()
                    server.shutdown(socket.SHUT_RDWR)  # its thread stops reading, and floods
                if not flood_has_begun.is_set():
                    server.sendall(data)
        except OSError:
            pass  # one of the two connections is gone
        _end(server)

    def _pass_answers(
        self, client: socket.socket, server: socket.socket, flood_has_begun: threading.Event
    ) -> None:
        try:
            while data := server.recv(BLOCK):
                client.sendall(data)
            while flood_has_begun.is_set():
                client.sendall(self._flood)
        except OSError:
            pass  # as above
        _end(client)


def _end(one: socket.socket) -> None:
    try:
        one.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # already ended
