"""A second handle on the socket of a connection, for those who may not touch the first.

The connection belongs to whoever sends on it, in a thread of its own perhaps. By this handle
another one sees that the server has hung up, and cuts what does not answer. It is a handle of
its own: a number that is read from the connection may be another's by the time it is used.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from holdfast.platforms import here

# A connection that was cut without a word is noticed within half a minute, not in two hours.
_KEPT_ALIVE = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3))


class Lifeline:
    """Holds on to a socket until closed; the connection ends when both handles are closed."""

    def __init__(self, number: int) -> None:
        self._socket = socket.socket(fileno=socket.dup(number))

    def keep_alive(self) -> None:
        """Let the system ask the other side now and then whether it is still there."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._socket.family in (socket.AF_INET, socket.AF_INET6):
            for name, value in _KEPT_ALIVE:
                if hasattr(socket, name):
                    self._socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def has_ended(self) -> bool:
        """Whether the other side has hung up, as far as this machine has heard."""
        return here.has_hung_up(self._socket)

    def cut(self) -> None:
        """Let whoever waits for an answer be told that none comes; from any thread."""
        with suppress(OSError):  # it was cut before
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of it."""
        self._socket.close()
