"""The meta protocol of memcached: requests as bytes, bytes as replies; no socket here."""

from __future__ import annotations

from typing import NamedTuple

from lockfast.backends.wires.parsing import MORE, Gibberish

NOOP = b"mn\r\n"
STATS = b"stats\r\n"
STATS_SETTINGS = b"stats settings\r\n"
STATS_ITEMS = b"stats items\r\n"
EVERY_KEY = b"lru_crawler metadump hash\r\n"
"""By the hash table: a walk along the lists by age leaves out what moves in them meanwhile, as an
item does that was read a moment ago (16 of 60 were missing)."""

LONGEST_LINE = 8192
"""No line of a server is longer; what is, is another protocol."""


class Reply(NamedTuple):
    """What a command was answered: its code, what came with it, and the value of an item."""

    code: bytes
    flags: tuple[bytes, ...] = ()
    value: bytes = b""

    def number(self, flag: bytes) -> int:
        """Return the number behind a flag that was asked for, such as the `c` of a CAS value."""
        for one in self.flags:
            if one.startswith(flag) and one[1:].lstrip(b"-").isdigit():
                return int(one[1:])
        raise Gibberish(b" ".join((self.code, *self.flags)))


class Refusal(NamedTuple):
    """The server's no, in its own words: CLIENT_ERROR, SERVER_ERROR, or ERROR alone."""

    text: str

    @property
    def is_in_step(self) -> bool:
        """Whether the server has read the whole request, so that the next reply is the next's."""
        return self.text.startswith("SERVER_ERROR")


class Lines(NamedTuple):
    """The lines of a statistic, or of a list of keys, up to their END."""

    lines: tuple[bytes, ...]


Answer = Reply | Refusal | Lines


def add(key: bytes, value: bytes, *, seconds: int) -> bytes:
    """Return the request that makes an item if there is none: HD and its CAS value, or NS."""
    return b"ms %b %d ME T%d c\r\n%b\r\n" % (key, len(value), seconds, value)


def swap(key: bytes, value: bytes, *, cas: int, seconds: int) -> bytes:
    """Return the request that changes just this version: HD and the next CAS value, EX or NF."""
    return b"ms %b %d C%d T%d c\r\n%b\r\n" % (key, len(value), cas, seconds, value)


def get(key: bytes) -> bytes:
    """Return the request for the value, its CAS value and the seconds that it has: VA, or EN."""
    return b"mg %b v c t\r\n" % key


def log_in(user: bytes, password: bytes) -> bytes:
    """Return what a server with an auth file wants to hear first; the key means nothing."""
    both = b"%b %b" % (user, password)
    return b"set auth 0 0 %d\r\n%b\r\n" % (len(both), both)


class Parser:
    """Gathers bytes and gives answers, one by one and in order.

    Of a list of keys it keeps those that begin with `ours` alone: a cache may hold millions.
    """

    __slots__ = ("_at", "_buffer", "_is_listing", "_lines", "_ours")

    def __init__(self, ours: bytes = b"") -> None:
        self._buffer = b""
        self._at = 0
        self._ours = b"key=" + ours
        self._lines: list[bytes] = []
        self._is_listing = False

    def feed(self, data: bytes) -> None:
        """Take what came."""
        self._buffer = self._buffer[self._at :] + data if self._at < len(self._buffer) else data
        self._at = 0

    def next(self) -> Answer | object:
        """Return the next answer, or MORE and keep what is there of it."""
        while True:
            buffer, at = self._buffer, self._at
            end = buffer.find(b"\n", at)
            if end < 0:
                if len(buffer) - at > LONGEST_LINE:
                    raise Gibberish(buffer[at : at + 40])
                return MORE
            line = buffer[at:end].rstrip(b"\r")
            code, *flags = line.split(b" ")
            if code == b"VA" and not self._is_listing:
                return self._with_value(flags, end + 1)
            self._at = end + 1
            if code in _CODES and not self._is_listing:
                return Reply(code, tuple(flags))
            if code == b"STAT" or line.startswith(b"key="):
                if code == b"STAT" or line.startswith(self._ours):
                    self._lines.append(line)
                continue
            if line == b"OK" and not self._is_listing:
                # Since 1.6.38 it stands before a list of keys; nothing else of ours is answered so.
                self._is_listing = True
                continue
            return self._of_line(code, line)

    def _of_line(self, code: bytes, line: bytes) -> Answer:
        if code in (b"END", b"RESET"):
            lines, self._lines, self._is_listing = tuple(self._lines), [], False
            return Lines(lines)
        if code in _REFUSALS:
            return Refusal(line.decode(errors="replace"))
        raise Gibberish(line[:40])

    def _with_value(self, flags: list[bytes], at: int) -> Reply | object:
        if not flags or not flags[0].isdigit():
            raise Gibberish(b" ".join(flags)[:40])
        end = at + int(flags[0])
        if len(self._buffer) < end + 2:
            return MORE
        self._at = end + 2
        return Reply(b"VA", tuple(flags[1:]), self._buffer[at:end])


def fits(request: bytes, answer: Answer) -> bool:
    """Whether such a request can have been answered so; a refusal answers anything."""
    codes = _ANSWERS.get(request[:2])
    if codes is None:
        return isinstance(answer, Lines | Refusal)
    return isinstance(answer, Refusal) or (isinstance(answer, Reply) and answer.code in codes)


_ANSWERS = {
    b"ms": frozenset({b"HD", b"NS", b"EX", b"NF"}),
    b"mg": frozenset({b"VA", b"EN"}),
    b"mn": frozenset({b"MN"}),
    b"se": frozenset({b"STORED"}),
}
"""By how a request begins; all others are answered by lines."""

_CODES = frozenset().union(*_ANSWERS.values())
_REFUSALS = frozenset({b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR", b"BUSY"})
