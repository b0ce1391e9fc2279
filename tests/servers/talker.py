"""A server that belongs to no store: it sends what a test chose."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable


def nothing(_: bytes) -> bytes:
    """Send no reply."""
    return b""


class Talker:
    """Greets each connection and answers everything that it receives with chosen bytes.

    If the answer is None, it closes the connection.
    """

    def __init__(
        self,
        scheme: str,
        *,
        greeting: bytes = b"",
        answer: Callable[[bytes], bytes | None] = nothing,
    ) -> None:
        self._greeting = greeting
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
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
                answer = self._answer(data)
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(answer)
        except OSError:
            return

    def close(self) -> None:
        """End all connections, and return when none is served."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._connections:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # its client was faster
        for thread in self._threads:
            thread.join()
        for one in self._connections:
            one.close()
