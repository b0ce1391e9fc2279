"""Real memcached servers, and raw connections to them."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from lockfast_challenge.servers.server import Server

if TYPE_CHECKING:
    from lockfast_challenge.servers.certificates import Certificates

REPLY_TIMEOUT_SECONDS = 20.0
"""Timeout for a reply, in seconds; only a reply that never comes takes longer."""


class MemcachedServer(Server):
    """One `memcached` server, which forgets everything when it ends.

    With a `login`, the server requires clients to log in.
    """

    kind = "memcached"
    packages: ClassVar[dict[str, str]] = {"memcached": "memcached"}
    account = "daemon"

    def __init__(self, *options: str, login: str = "", tls: Certificates | None = None) -> None:
        super().__init__()
        self.options = options
        self.login = login
        self.tls = tls

    @property
    def url(self) -> str:
        """The server's URL, with the login if there is one."""
        return f"memcached://{self.login}@{self.address}" if self.login else self.bare_url

    @property
    def bare_url(self) -> str:
        """The server's URL, without the login."""
        return f"memcached://{self.address}"

    def command(self) -> list[str]:
        """Return the command line."""
        options = list(self.options)
        if self.login:
            users = self.directory / "users"
            users.write_text(f"{self.login}\n")
            users.chmod(0o644)
            options += ["-Y", str(users)]
        if self.tls is not None:
            # Use copies, because the server's account may not read the originals.
            certificate, key = map(self._copied, (self.tls.certificate, self.tls.key))
            options += ["-Z", "-o", f"ssl_chain_cert={certificate},ssl_key={key}"]
        return ["memcached", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0", *options]

    def _copied(self, file: str) -> Path:
        copy = Path(shutil.copy(file, self.directory))
        copy.chmod(0o644)
        return copy

    def serves(self) -> bool:
        """Whether the server accepts connections and, without TLS, also replies."""
        try:
            with socket.create_connection(
                ("127.0.0.1", self.port), timeout=REPLY_TIMEOUT_SECONDS
            ) as sock:
                if self.tls is not None:
                    return True
                sock.sendall(b"version\r\n")
                return bool(sock.recv(100))
        except OSError:
            return False

    def say(self, *requests: bytes, ends: bytes = b"\r\n") -> list[bytes]:
        """Return the reply to each request; a reply is read until it ends with `ends`."""
        with self.talk() as talk:
            return [talk(one, ends=ends) for one in requests]

    def talk(self) -> RawConnection:
        """Return a raw connection, which stays open."""
        return RawConnection(self.port)

    def stat(self, name: str, kind: str = "") -> str:
        """Return one of the server's statistics."""
        [answer] = self.say(f"stats {kind}".strip().encode() + b"\r\n", ends=b"END\r\n")
        lines = dict(
            line.decode().split(" ", 2)[1:] for line in answer.splitlines() if b"STAT" in line
        )
        return str(lines[name])


class RawConnection:
    """One raw connection."""

    def __init__(self, port: int) -> None:
        self.sock: socket.socket = socket.create_connection(
            ("127.0.0.1", port), timeout=REPLY_TIMEOUT_SECONDS
        )

    def send(self, request: bytes) -> None:
        """Send a request, without waiting for the reply."""
        self.sock.sendall(request)

    def read(self, ends: bytes = b"\r\n") -> bytes:
        """Return the bytes received, up to and including `ends`."""
        answer = b""
        while not answer.endswith(ends):
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionResetError("the server closed the connection")
            answer += data
        return answer

    def __call__(self, request: bytes, *, ends: bytes = b"\r\n") -> bytes:
        """Return the reply to a request."""
        self.send(request)
        return self.read(ends)

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
