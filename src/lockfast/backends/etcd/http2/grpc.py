"""gRPC calls, and the schedule by which a silent stream is pinged."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote_to_bytes

from lockfast.backends.etcd.http2 import frames
from lockfast.backends.etcd.http2.frames import NotHttp2

if TYPE_CHECKING:
    from collections.abc import Callable

# gRPC calls: the prefix of a message, and the status at the end of a call; pure.

MESSAGE_PREFIX = 5
"""Bytes before each message: a flag and the length."""

MESSAGE_MAX_BYTES = 2**26
"""Maximum size of a message; a line of 100,000 claims takes a quarter of it."""

CODES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND"),
    *("ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION"),
    *("ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    "UNAUTHENTICATED",
)
"""The names of the status codes, by number."""


class GrpcError(NamedTuple):
    """A refusal by the server: the name of its status, and its text."""

    code: str
    text: str


class BrokenCall(NamedTuple):
    """Why there is no reply, and whether it is certain that the server did not begin the call."""

    reason: str
    is_undone: bool


def prefixed(message: bytes) -> bytes:
    """Return the message with its prefix, as it is sent on a stream."""
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

    With `needs_leader`, a member that loses its leader ends the call. Otherwise the call would stay
    open but get no more events, and nothing would show that.
    """
    return b"".join(
        [
            frames.METHOD_POST,
            frames.SCHEME_HTTPS if is_secure else frames.SCHEME_HTTP,
            frames.literal(frames.PATH, path),
            frames.literal(frames.AUTHORITY, authority),
            frames.literal(b"content-type", b"application/grpc"),
            frames.literal(b"te", b"trailers"),
            frames.literal(b"token", token) if token else b"",
            frames.literal(b"hasleader", b"true") if needs_leader else b"",
        ]
    )


class GrpcCall:
    """One call, and the state of its stream once the call has begun.

    A subclass decides what happens to each message and at the end of the call.
    """

    __slots__ = ("_part", "ends", "head", "is_over", "number", "received", "room", "unsent")

    def __init__(self, head: bytes, body: bytes, *, ends: bool = True) -> None:
        self.head: bytes = head
        self.unsent: bytes = body
        self.ends: bool = ends
        """Whether the call sends nothing after its body; false if the call is left open."""
        self.number: int = 0
        """The number of the call's stream; 0 before the call is sent."""
        self.room: int = 0
        self.received: int = 0
        self.is_over: bool = False
        self._part = bytearray()

    @property
    def is_undone(self) -> bool:
        """Whether the server cannot have begun, because part of the request has not been sent."""
        return not self.number or bool(self.unsent and self.ends)

    def take(self, data: bytes) -> None:
        """Process data that arrived on the call's stream, and pass on the complete messages."""
        part = self._part
        part += data
        while len(part) >= MESSAGE_PREFIX:
            if part[0]:
                raise NotHttp2("a compressed message, which nobody asked for")
            end = MESSAGE_PREFIX + int.from_bytes(part[1:MESSAGE_PREFIX], "big")
            if end > MESSAGE_MAX_BYTES:
                raise NotHttp2(f"a message of {end} bytes, more than anybody would send")
            if len(part) < end:
                break
            message = bytes(part[MESSAGE_PREFIX:end])
            del part[:end]
            self.heard(message)

    def heard(self, message: bytes) -> None:
        """Handle a message."""
        raise NotImplementedError

    def ended(self, end: GrpcError | BrokenCall | None) -> None:
        """Handle the end of the call; `end` is None if the call succeeded."""
        raise NotImplementedError


class UnaryCall(GrpcCall):
    """A call that has one reply."""

    __slots__ = ("message",)

    def __init__(self, head: bytes, body: bytes) -> None:
        super().__init__(head, prefixed(body))
        self.message: bytes | None = None

    def heard(self, message: bytes) -> None:
        """Keep the message, which is the reply if the call ends without an error."""
        self.message = message

    def result(self, end: GrpcError | BrokenCall | None) -> bytes | GrpcError | BrokenCall:
        """Return the outcome of the call, which has ended as `end` says."""
        if end is not None:
            return end
        if self.message is None:
            return BrokenCall("it ended well, and without an answer", is_undone=False)
        return self.message


class StreamCall(GrpcCall):
    """A call that stays open; its messages are passed on as they arrive."""

    __slots__ = ("_on_message", "_over", "end")

    def __init__(
        self, head: bytes, on_message: Callable[[bytes], None], over: Callable[[], None]
    ) -> None:
        super().__init__(head, b"", ends=False)
        self.end: GrpcError | BrokenCall | None = None
        self._on_message = on_message
        self._over = over

    def heard(self, message: bytes) -> None:
        """Pass the message on."""
        self._on_message(message)

    def ended(self, end: GrpcError | BrokenCall | None) -> None:
        """Keep the reason for the end, and report that the call has ended."""
        self.end = end or BrokenCall("the stream was ended", is_undone=False)
        self._over()


def check_beginning(headers: dict[bytes, bytes]) -> None:
    """Raise unless the reply begins as a gRPC reply does."""
    status, kind = headers.get(b":status", b""), headers.get(b"content-type", b"")
    if status != b"200" or not kind.startswith(b"application/grpc"):
        raise NotHttp2(f"an answer of HTTP with status {status.decode(errors='replace')}")


def end_of(headers: dict[bytes, bytes]) -> GrpcError | None:
    """Return the error in the last headers of a call; None if the call succeeded."""
    status = headers.get(b"grpc-status")
    if status == b"0":
        return None
    if status is None or not status.isdigit() or len(status) > len("16"):
        check_beginning(headers)
        raise NotHttp2("a call ended without a status")
    number = int(status)
    words = unquote_to_bytes(headers.get(b"grpc-message", b"")).decode(errors="replace")
    return GrpcError(CODES[number] if number < len(CODES) else f"status {number}", words)


# Decides when to ping a member from which we only receive; pure.
#
# A watched key may stay unchanged for days, and then a working connection looks just like one that
# was cut silently.

PING_SECONDS = 10.0
"""Silence after which a member is pinged, in seconds. By default a member treats more than one ping
in 5 s as abuse, and hangs up."""

PING_TIMEOUT_SECONDS = 5.0
"""Timeout for the ping reply, in seconds."""


class PingAction(Enum):
    """What to do next about a member from which we only receive."""

    NOTHING = "nothing"
    ASK = "ask"
    LEAVE = "leave"


class WatchPing:
    """Decides when to ping a member, by the time since that member last answered."""

    __slots__ = ("_answers", "_asked_at", "_received_at")

    def __init__(self, now: float) -> None:
        self._answers = 0
        self._received_at = now
        self._asked_at: float | None = None

    def due(self, now: float, *, answers: int) -> PingAction:
        """Return what to do; on ASK the caller must send a ping, whose timeout begins at `now`.

        `answers` is how often the member has answered so far, on the connection that is watched.
        """
        if answers != self._answers:
            self._answers, self._received_at, self._asked_at = answers, now, None
        if self._asked_at is not None:
            return (
                PingAction.LEAVE
                if now - self._asked_at > PING_TIMEOUT_SECONDS
                else PingAction.NOTHING
            )
        if now - self._received_at < PING_SECONDS:
            return PingAction.NOTHING
        self._asked_at = now
        return PingAction.ASK
