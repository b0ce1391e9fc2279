"""Bytes in, replies out: what a link asks of the parser of a protocol.

The rule for every wire of ours: an answer of unexpected shape is BackendMisbehaved and closes the
connection that it came on. Somebody may read the protocol differently from us, so the next bytes
may be a part of this answer, and would be taken for the answer to another request. Whoever adds a
store reads its replies by `read`, or raises Gibberish or Misread before the link is used again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from lockfast.errors import BackendMisbehaved, LockError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

MORE: Final = object()
"""In place of a reply: more bytes are needed. Not an exception, because every request would
raise it, and one that is kept for that gathers the frames of all who ever did."""

UNREADABLE: Final = (TypeError, ValueError, LookupError, AttributeError)
"""What reading a reply of another shape than expected raises."""

SHOWN = 80
"""So many characters of such a reply are shown."""


class Gibberish(Exception):
    """Bytes that no server of this kind sends."""


class Misread(ConnectionError):
    """A reply of unexpected shape, of which its own request knows: the link cannot be kept."""


class Parser(Protocol):
    """Gathers bytes and gives replies, one by one and in order."""

    def feed(self, data: bytes) -> None:
        """Take what came."""
        ...

    def next(self) -> Any:  # noqa: ANN401 - the protocol's
        """Return the next reply, or MORE and keep what is there of it; raise Gibberish."""
        ...


class Leavable(Protocol):
    """A wire, as far as `read` knows it."""

    where: str

    def leave(self) -> None:
        """Let no connection that was made before be used again."""
        ...


def read(reading: Callable[[Any], T], reply: object, *, wire: Leavable) -> T:
    """Return what the reading makes of a reply; see the rule above."""
    try:
        return reading(reply)
    except LockError as error:
        if isinstance(error, BackendMisbehaved):  # in words of the store's own
            wire.leave()
        raise
    except UNREADABLE as error:
        wire.leave()
        raise misbehaved(reply, where=wire.where) from error


def misbehaved(reply: object, *, where: str) -> BackendMisbehaved:
    """Return the error of an answer that nobody can read."""
    return BackendMisbehaved(f"{where} sent a reply that cannot be read: {repr(reply)[:SHOWN]}")
