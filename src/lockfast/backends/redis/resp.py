"""The Redis protocol, version 3: bytes in, values out; no socket is touched here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.network.codec import NEED_MORE, ProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Reply = Any
"""int, bytes, float, bool, None, list, dict, or an ErrorReply."""


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """A refusal by the server; its first word is the code, such as NOAUTH, MOVED or ERR."""

    text: str

    @property
    def code(self) -> str:
        """The first word."""
        return self.text.partition(" ")[0]


@dataclass(frozen=True, slots=True)
class Push:
    """A push from the server: a published message, or the confirmation of a subscription."""

    items: list[Any]


class RespError(ProtocolError):
    """The received bytes are not the Redis protocol."""


def packed(*arguments: bytes) -> bytes:
    """Return a command, encoded for the server."""
    return b"*%d\r\n" % len(arguments) + packed_arguments(arguments)


def packed_arguments(arguments: Iterable[bytes]) -> bytes:
    """Return encoded arguments without the head of a command, so that they can be joined."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(one), one) for one in arguments])


class RespCodec:
    """Collects bytes and returns replies, one at a time and in order."""

    __slots__ = ("_at", "_buffer")

    def __init__(self) -> None:
        self._buffer = b""
        self._at = 0

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Whether every received byte has been returned as a part of a reply."""
        return self._at == len(self._buffer)

    def next(self) -> Reply | Push:
        """Return the next reply; NEED_MORE if the reply is still incomplete."""
        buffer, at = self._buffer, self._at
        if at == len(buffer):
            return NEED_MORE
        if buffer[at : at + 1] == b":" and (end := buffer.find(b"\r\n", at)) > 0:
            # A number is the scripts' most common reply, so read it in one step, like a channel
            # message.
            try:
                number = int(buffer[at + 1 : end])
            except ValueError as error:
                raise RespError(buffer[at : at + 40]) from error
            self._at = end + 2
            return number
        if self._buffer.startswith(_MESSAGE, self._at):
            message = self._message()
            if message is not None:
                return message
        try:
            found = _parse(self._buffer, self._at)
        except (ValueError, RecursionError) as error:
            # A number is malformed, or arrays are nested too deeply.
            raise RespError(self._buffer[self._at : self._at + 40]) from error
        if found is None:
            return NEED_MORE
        value, self._at = found
        return value

    def _message(self) -> Push | None:
        """Return a channel message in one step, for speed; None if it needs the full parser."""
        head, _, rest = self._buffer[self._at + len(_MESSAGE) :].partition(b"\r\n")
        channel, _, rest = rest.partition(b"\r\n$")
        size, _, rest = rest.partition(b"\r\n")
        if not size.isdigit() or not head.isdigit() or int(head) != len(channel):
            return None  # incomplete, or not of this simple form
        end = int(size)
        if rest[end : end + 2] != b"\r\n":
            return None
        self._at = len(self._buffer) - len(rest) + end + 2
        return Push([b"message", channel, rest[:end]])


_MESSAGE = b">3\r\n$7\r\nmessage\r\n$"


def _parse(buffer: bytes, at: int) -> tuple[Any, int] | None:
    end = buffer.find(b"\r\n", at)
    kind = buffer[at : at + 1]
    if end < 0:
        if kind and kind not in _KINDS:
            raise RespError(buffer[at : at + 40])
        return None
    line, after = buffer[at + 1 : end], end + 2
    read = _LINES.get(kind)
    if read is not None:
        return read(line), after
    if kind in _BLOBS:
        return _blob(kind, int(line), buffer, after)
    if kind in _AGGREGATES:
        return _aggregate(kind, int(line), buffer, after)
    raise RespError(kind + line[:40])


_LINES: dict[bytes, Callable[[bytes], Any]] = {
    b":": int,
    b"+": bytes,
    b"-": lambda line: ErrorReply(line.decode(errors="replace")),
    b"_": lambda _: None,
    b"#": lambda line: line == b"t",
    b",": float,
    b"(": int,
}
_BLOBS = frozenset({b"$", b"=", b"!"})
_AGGREGATES = frozenset({b"*", b"~", b">", b"%", b"|"})
_KINDS = frozenset(_LINES) | _BLOBS | _AGGREGATES


def _blob(kind: bytes, size: int, buffer: bytes, at: int) -> tuple[Any, int] | None:
    if size < 0:
        return None, at
    end = at + size
    if len(buffer) < end + 2:
        return None
    data = buffer[at:end]
    if kind == b"!":
        return ErrorReply(data.decode(errors="replace")), end + 2
    return data[4:] if kind == b"=" else data, end + 2


def _aggregate(kind: bytes, count: int, buffer: bytes, at: int) -> tuple[Any, int] | None:
    if count < 0:
        return None, at
    items: list[Any] = []
    for _ in range(2 * count if kind in b"%|" else count):
        # Read the most common items inline, without a call for each of them.
        end, part = buffer.find(b"\r\n", at), buffer[at : at + 1]
        if part == b":" and end > 0:
            items.append(int(buffer[at + 1 : end]))
            at = end + 2
            continue
        if part == b"$" and end > 0 and (size := int(buffer[at + 1 : end])) >= 0:
            at = end + size + 4
            if len(buffer) < at:
                return None
            items.append(buffer[end + 2 : at - 2])
            continue
        found = _parse(buffer, at)
        if found is None:
            return None
        items.append(found[0])
        at = found[1]
    if kind == b"|":  # attributes precede the reply they describe; we ignore them
        return _parse(buffer, at)
    if kind == b"%":
        return dict(zip(items[::2], items[1::2], strict=True)), at
    return (Push(items) if kind == b">" else items), at
