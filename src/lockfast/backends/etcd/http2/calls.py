"""Calls of gRPC: what goes before a message, and what an end says; pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from lockfast.backends.etcd.http2 import hpack
from lockfast.backends.etcd.http2.frames import NotHttp2

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = 5
"""Before each message stand a flag and the length."""

MOST = 2**26
"""No message is longer: a line of 100,000 claims has a quarter of it."""

CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
"""What a status is called, by its number."""


class Refusal(NamedTuple):
    """A server's no: the name of its status, and its words."""

    code: str
    text: str


class Broken(NamedTuple):
    """Why there is no answer, and whether the server cannot have begun."""

    reason: str
    is_undone: bool


def prefixed(message: bytes) -> bytes:
    """Return the message as it goes into a stream."""
    return b"\0" + len(message).to_bytes(4, "big") + message


@lru_cache(64)
def head(
    path: bytes,
    *,
    authority: bytes,
    is_secure: bool,
    token: bytes = b"",
    needs_leader: bool = False,
) -> bytes:
    """Return the headers of a call.

    One that needs a leader is ended by a member that has lost its own: it would hear of nothing,
    and go on in silence.
    """
    return b"".join(
        [
            hpack.METHOD_POST,
            hpack.SCHEME_HTTPS if is_secure else hpack.SCHEME_HTTP,
            hpack.literal(hpack.PATH, path),
            hpack.literal(hpack.AUTHORITY, authority),
            hpack.literal(b"content-type", b"application/grpc"),
            hpack.literal(b"te", b"trailers"),
            hpack.literal(b"token", token) if token else b"",
            hpack.literal(b"hasleader", b"true") if needs_leader else b"",
        ]
    )


class Call:
    """One call, and the stream that it has once it was begun.

    Whoever makes one says what becomes of its messages and of its end.
    """

    __slots__ = ("_part", "ends", "head", "is_over", "number", "received", "room", "unsent")

    def __init__(self, head: bytes, body: bytes, *, ends: bool = True) -> None:
        self.head: bytes = head
        self.unsent: bytes = body
        self.ends: bool = ends
        """Whether nothing will follow the body."""
        self.number: int = 0
        """Of its stream; 0 before the first byte was sent."""
        self.room: int = 0
        self.received: int = 0
        self.is_over: bool = False
        self._part = bytearray()

    @property
    def is_undone(self) -> bool:
        """Whether the server cannot have begun: it lacks a part of the request."""
        return not self.number or bool(self.unsent and self.ends)

    def take(self, data: bytes) -> None:
        """Take what came on the stream, and hear the messages that are whole."""
        part = self._part
        part += data
        while len(part) >= PREFIX:
            if part[0]:
                raise NotHttp2("a compressed message, which nobody asked for")
            end = PREFIX + int.from_bytes(part[1:PREFIX], "big")
            if end > MOST:
                raise NotHttp2(f"a message of {end} bytes, more than anybody would send")
            if len(part) < end:
                break
            message = bytes(part[PREFIX:end])
            del part[:end]
            self.heard(message)

    def heard(self, message: bytes) -> None:
        """Be told of a message."""
        raise NotImplementedError

    def ended(self, end: Refusal | Broken | None) -> None:
        """Be told of the end; None if all went well."""
        raise NotImplementedError


class Asked(Call):
    """A call that has one answer."""

    __slots__ = ("message",)

    def __init__(self, head: bytes, body: bytes) -> None:
        super().__init__(head, prefixed(body))
        self.message: bytes | None = None

    def heard(self, message: bytes) -> None:
        """Keep it: it counts when all went well."""
        self.message = message

    def result(self, end: Refusal | Broken | None) -> bytes | Refusal | Broken:
        """Return what became of it."""
        if end is not None:
            return end
        if self.message is None:
            return Broken("it ended well, and without an answer", is_undone=False)
        return self.message


class Streamed(Call):
    """A call that goes on; its messages are passed on as they come."""

    __slots__ = ("_hear", "_over", "end")

    def __init__(
        self, head: bytes, hear: Callable[[bytes], None], over: Callable[[], None]
    ) -> None:
        super().__init__(head, b"", ends=False)
        self.end: Refusal | Broken | None = None
        self._hear = hear
        self._over = over

    def heard(self, message: bytes) -> None:
        """Pass it on."""
        self._hear(message)

    def ended(self, end: Refusal | Broken | None) -> None:
        """Keep why, and pass on that it is over."""
        self.end = end or Broken("the stream was ended", is_undone=False)
        self._over()


def check_beginning(headers: dict[bytes, bytes]) -> None:
    """Raise if an answer does not begin as one of gRPC does."""
    status, kind = headers.get(b":status", b""), headers.get(b"content-type", b"")
    if status != b"200" or not kind.startswith(b"application/grpc"):
        raise NotHttp2(f"an answer of HTTP with status {status.decode(errors='replace')}")


def end_of(headers: dict[bytes, bytes]) -> Refusal | None:
    """Return what the last headers of a call say; None if all went well."""
    status = headers.get(b"grpc-status")
    if status == b"0":
        return None
    if status is None or not status.isdigit() or len(status) > len("16"):
        check_beginning(headers)
        raise NotHttp2("a call ended without a status")
    number = int(status)
    words = unquote_to_bytes(headers.get(b"grpc-message", b"")).decode(errors="replace")
    return Refusal(CODES[number] if number < len(CODES) else f"status {number}", words)
