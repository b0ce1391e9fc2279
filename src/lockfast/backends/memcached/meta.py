"""The meta protocol of memcached: turns requests into bytes, and bytes into replies; no I/O."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.backends.network.codec import NEED_MORE, ProtocolError

NOOP = b"mn\r\n"
STATS = b"stats\r\n"
STATS_SETTINGS = b"stats settings\r\n"
STATS_ITEMS = b"stats items\r\n"
EVERY_KEY = b"lru_crawler metadump hash\r\n"
"""Lists all keys by walking the hash table. A walk along the LRU lists would miss items that move
within the lists meanwhile, such as an item that was just read (16 of 60 were missing)."""

LINE_MAX_BYTES = 8192
"""Maximum length of a line from the server; a longer line means that the server speaks another
protocol."""


class MetaFlags(NamedTuple):
    """The reply to a command: its code, its flags, and the value of an item."""

    code: bytes
    flags: tuple[bytes, ...] = ()
    value: bytes = b""

    def number(self, flag: bytes) -> int:
        """Return the number that follows a flag in the reply, such as the CAS value after `c`."""
        for one in self.flags:
            if one.startswith(flag) and one[1:].lstrip(b"-").isdigit():
                return int(one[1:])
        raise ProtocolError(b" ".join((self.code, *self.flags)))


class MetaError(NamedTuple):
    """The server's error, in its own words: CLIENT_ERROR, SERVER_ERROR, or a bare ERROR."""

    text: str

    @property
    def is_in_step(self) -> bool:
        """Whether the server has read the whole request, so that later replies still match."""
        return self.text.startswith("SERVER_ERROR")


class TextLines(NamedTuple):
    """The lines of a statistic, or of a list of keys, up to their END."""

    lines: tuple[bytes, ...]


MetaReply = MetaFlags | MetaError | TextLines


def add(key: bytes, value: bytes, *, seconds: int) -> bytes:
    """Return the request that adds an item unless the key already has one.

    The reply is HD with the CAS value, or NS if there already is an item.
    """
    return b"ms %b %d ME T%d c\r\n%b\r\n" % (key, len(value), seconds, value)


def swap(key: bytes, value: bytes, *, cas: int, seconds: int) -> bytes:
    """Return the request that changes the item if the item still has this version.

    The reply is HD with the next CAS value, EX if the version differs, or NF if there is no item.
    """
    return b"ms %b %d C%d T%d c\r\n%b\r\n" % (key, len(value), cas, seconds, value)


def get(key: bytes) -> bytes:
    """Return the request for the value, its CAS value and its remaining seconds.

    The reply is VA, or EN if there is no item.
    """
    return b"mg %b v c t\r\n" % key


def log_in(user: bytes, password: bytes) -> bytes:
    """Return the login that a server with an auth file expects first; its key is arbitrary."""
    both = b"%b %b" % (user, password)
    return b"set auth 0 0 %d\r\n%b\r\n" % (len(both), both)


class MetaCodec:
    """Collects bytes and returns replies, one by one and in order.

    From a list of keys the codec keeps only keys that begin with `ours`, because a cache may hold
    millions of keys.
    """

    __slots__ = ("_at", "_buffer", "_is_listing", "_lines", "_ours")

    def __init__(self, ours: bytes = b"") -> None:
        self._buffer = b""
        self._at = 0
        self._ours = b"key=" + ours
        self._lines: list[bytes] = []
        self._is_listing = False

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Whether every received byte has been returned as a part of a reply."""
        return self._at == len(self._buffer) and not self._lines

    def next(self) -> MetaReply | object:
        """Return the next reply; if it is incomplete, keep its bytes and return NEED_MORE."""
        while True:
            buffer, at = self._buffer, self._at
            end = buffer.find(b"\n", at)
            if end < 0:
                if len(buffer) - at > LINE_MAX_BYTES:
                    raise ProtocolError(buffer[at : at + 40])
                return NEED_MORE
            line = buffer[at:end].rstrip(b"\r")
            code, *flags = line.split(b" ")
            if code == b"VA" and not self._is_listing:
                return self._with_value(flags, end + 1)
            self._at = end + 1
            if code in _CODES and not self._is_listing:
                return MetaFlags(code, tuple(flags))
            if code == b"STAT" or line.startswith(b"key="):
                if code == b"STAT" or line.startswith(self._ours):
                    self._lines.append(line)
                continue
            if line == b"OK" and not self._is_listing:
                # Since version 1.6.38 an OK precedes a list of keys. No request of ours is answered
                # by OK.
                self._is_listing = True
                continue
            return self._of_line(code, line)

    def _of_line(self, code: bytes, line: bytes) -> MetaReply:
        if code in (b"END", b"RESET"):
            lines, self._lines, self._is_listing = tuple(self._lines), [], False
            return TextLines(lines)
        if code in _REFUSALS:
            return MetaError(line.decode(errors="replace"))
        raise ProtocolError(line[:40])

    def _with_value(self, flags: list[bytes], at: int) -> MetaFlags | object:
        if not flags or not flags[0].isdigit():
            raise ProtocolError(b" ".join(flags)[:40])
        end = at + int(flags[0])
        if len(self._buffer) < end + 2:
            return NEED_MORE
        self._at = end + 2
        return MetaFlags(b"VA", tuple(flags[1:]), self._buffer[at:end])


def fits(request: bytes, answer: MetaReply) -> bool:
    """Whether this reply can belong to such a request; an error can answer any request."""
    codes = _ANSWERS.get(request[:2])
    if codes is None:
        return isinstance(answer, TextLines | MetaError)
    return isinstance(answer, MetaError) or (isinstance(answer, MetaFlags) and answer.code in codes)


_ANSWERS = {
    b"ms": frozenset({b"HD", b"NS", b"EX", b"NF"}),
    b"mg": frozenset({b"VA", b"EN"}),
    b"mn": frozenset({b"MN"}),
    b"se": frozenset({b"STORED"}),
}
"""Reply codes by the first two bytes of a request; all other requests are answered by text
lines."""

_CODES = frozenset().union(*_ANSWERS.values())
_REFUSALS = frozenset({b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"BUSY"})
