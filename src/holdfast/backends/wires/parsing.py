"""Bytes in, replies out: what a link asks of the parser of a protocol."""

from __future__ import annotations

from typing import Any, Final, Protocol

MORE: Final = object()
"""In place of a reply: more bytes are needed. Not an exception, because every request would
raise it, and one that is kept for that gathers the frames of all who ever did."""


class Gibberish(Exception):
    """Bytes that no server of this kind sends."""


class Parser(Protocol):
    """Gathers bytes and gives replies, one by one and in order."""

    def feed(self, data: bytes) -> None:
        """Take what came."""
        ...

    def next(self) -> Any:  # noqa: ANN401 - the protocol's
        """Return the next reply, or MORE and keep what is there of it; raise Gibberish."""
        ...
