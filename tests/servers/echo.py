"""A small server that echoes each line, to test the machinery that starts servers.

Each connection is served by its own process, as in PostgreSQL.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

from lockfast_challenge.servers.server import Server

SCRIPT = """
import socketserver, sys

class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(line)

socketserver.ForkingTCPServer.allow_reuse_address = True
with socketserver.ForkingTCPServer(("127.0.0.1", int(sys.argv[1])), Echo) as server:
    server.serve_forever(0.01)
"""


class EchoServer(Server):
    """Serves once it echoes; its data directory records how often the data was built."""

    kind = "echo"
    built = 0

    @classmethod
    def build(cls, data: Path) -> None:
        """Count the build, and record the number."""
        cls.built += 1
        data.mkdir()
        (data / "number").write_text(str(cls.built))

    def command(self) -> list[str]:
        """Return the command line."""
        return [sys.executable, "-c", SCRIPT, str(self.port)]

    def serves(self) -> bool:
        """Return whether the server replies to a line."""
        try:
            return asked(self.port, b"hello") == b"hello"
        except OSError:
            return False


def asked(port: int, line: bytes, *, within: float = 20.0) -> bytes:
    """Return the reply to a line, or b"" if the connection just ends."""
    with socket.create_connection(("127.0.0.1", port), timeout=within) as connection:
        connection.sendall(line + b"\n")
        return connection.makefile("rb").readline().rstrip(b"\n")
