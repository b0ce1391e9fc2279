"""What a proxy has of each connection: a way to the server, a way to the client, and both ends."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing sends a reset, not an end."""


class Direction:
    """One way of one connection: to the server (up), or to the client (down)."""

    def __init__(self) -> None:
        self.is_dropped = False
        self.cuts: dict[object, int] = {}
        self.cuts_all: int | None = None
        self.is_open: asyncio.Event = asyncio.Event()
        self.is_open.set()
        self.met: threading.Event | None = None
        """Set when something comes by while all connections are struck."""

    def open(self) -> None:
        """Let by what is held, and cut nothing more."""
        self.cuts.clear()
        self.cuts_all = self.met = None
        self.is_open.set()

    def cut_of(self, number: object) -> int | None:
        """Return after how many bytes of this message the connection is reset, if it is."""
        return self.cuts.get(number, self.cuts_all)


class Connection:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, client: asyncio.StreamWriter, server: asyncio.StreamWriter) -> None:
        self.client = client
        self.server = server
        self.up: Direction = Direction()
        self.down: Direction = Direction()

    def reset(self) -> None:
        """Let both ends know that it is over."""
        self.reset_client()
        _reset(self.server)

    def reset_client(self) -> None:
        """Let only the client know that it is over."""
        _reset(self.client)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()
