"""Bytes in, replies out: what a connection needs from the codec of a protocol.

The rule for all our connections is that a reply of unexpected shape raises BackendMisbehaved and
closes its connection. The server may read the protocol differently from us. Then the next bytes may
still be part of this reply, and would be taken for the reply to another request. A new store must
read its replies with `read`, or raise ProtocolError or Misread before the connection is used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from lockfast.errors import BackendMisbehaved, LockError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

NEED_MORE: Final = object()
"""Returned in place of a reply when more bytes are needed. It is not an exception, because every
request would raise it, and a shared exception object would collect the frames of every call that
ever raised it."""

UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError, OverflowError)
"""The errors that reading a reply of unexpected shape raises."""

SHOWN = 80
"""Number of characters of an unreadable reply that an error message shows."""


SILENCE_SECONDS = 0.2
"""Minimum silence before a connection counts as cut, in seconds. A lost packet is not sent again
sooner (Linux's minimum retransmission timeout), and a request may have a timeout shorter than a
round trip. After less silence only the late request fails, because the other requests on the
connection have time left."""


class ProtocolError(Exception):
    """Bytes that no server of this kind sends."""


class UnsolicitedReply(ProtocolError):
    """A reply to no request; before the first request, it is how a server refuses a connection."""

    def __init__(self, reply: object) -> None:
        super().__init__(repr(reply)[:40])
        self.reply = reply


class NotSent(TimeoutError):
    """The time was up before anything was sent, so the connection can still be used."""


class Misread(ConnectionError):
    """A reply of unexpected shape, already passed to its request; the connection must be closed."""


class Codec(Protocol):
    """Collects bytes and returns replies, one by one and in order."""

    @property
    def is_empty(self) -> bool:
        """Whether every byte that was received has been returned as a part of a reply."""
        ...

    def feed(self, data: bytes) -> None:
        """Add bytes that were received."""
        ...

    def next(self) -> Any:  # noqa: ANN401 - the protocol's
        """Return the next reply, or NEED_MORE while it is incomplete; may raise ProtocolError."""
        ...


class Leavable(Protocol):
    """The part of a transport that `read` needs."""

    where: str

    def leave(self) -> None:
        """Stop using every connection made so far."""
        ...


def read(reading: Callable[[Any], T], reply: object, *, transport: Leavable) -> T:
    """Return the reply as parsed by `reading`; leave the connections if it cannot be parsed."""
    try:
        return reading(reply)
    except LockError as error:
        if isinstance(error, BackendMisbehaved):  # the error has the store's own message
            transport.leave()
        raise
    except UNREADABLE as error:
        transport.leave()
        raise misbehaved(reply, where=transport.where) from error


def misbehaved(reply: object, *, where: str) -> BackendMisbehaved:
    """Return the error for a reply that cannot be read."""
    return BackendMisbehaved(f"{where} sent a reply that cannot be read: {repr(reply)[:SHOWN]}")
