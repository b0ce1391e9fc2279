"""What HTTP/2 is made of (RFC 9113): frames, their kinds and flags, the settings; pure."""

from __future__ import annotations

import struct

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    *(0, 1, 3, 4),
    *(5, 6, 7, 8, 9),
)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITY = 0x20

# Settings
TABLE_SIZE, ENABLE_PUSH, MOST_STREAMS, STREAM_WINDOW, LARGEST_FRAME = 1, 2, 3, 4, 5

# Reasons
REFUSED_STREAM, CANCEL = 7, 8

HEAD = 9
"""So many bytes stand before the content of each frame."""

WINDOW = 65535
"""So much may be sent, on a stream and on all of them, until the other side says otherwise."""

LARGEST = 16384
"""A larger content is accepted by nobody who has not said so."""

MOST_HEADERS = 2**16
"""Longer headers than this are read by nobody: it is many times what any answer has."""

LAST_STREAM = 2**31 - 1
"""There are no more; who has used them up needs a new connection."""

_head = struct.Struct(">HBBBL")
_setting = struct.Struct(">HL")


class NotHttp2(Exception):
    """What came is not what a server of this protocol would send."""


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """Return one frame."""
    size = len(content)
    return _head.pack(size >> 8, size & 0xFF, kind, flags, stream) + content


def head_of(data: bytearray, at: int) -> tuple[int, int, int, int]:
    """Return size, kind, flags and stream of the frame that begins there."""
    large, small, kind, flags, stream = _head.unpack_from(data, at)
    return large << 8 | small, kind, flags, stream & LAST_STREAM


def settings(content: bytes) -> list[tuple[int, int]]:
    """Return the settings in a frame of them."""
    if len(content) % _setting.size:
        raise NotHttp2("settings of an odd length")
    return list(_setting.iter_unpack(content))


def number(content: bytes, at: int = 0) -> int:
    """Return the 32 bits that stand there."""
    if len(content) < at + 4:
        raise NotHttp2("a frame is too short")
    return int.from_bytes(content[at : at + 4], "big")


def unpadded(flags: int, content: bytes) -> bytes:
    """Return the content of DATA or HEADERS without padding and priority."""
    begin, end = 0, len(content)
    if flags & PADDED:
        if not content or content[0] >= end:
            raise NotHttp2("more padding than there are bytes")
        begin, end = 1, end - content[0]
    if flags & PRIORITY:
        begin += 5
    return content[begin:end]


OURS = 2**24
"""How much we take without having read it. What comes is read at once, so this is never in the
way; it only has to be larger than what a server would send before it hears from us again."""

GREETING = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(
        SETTINGS,
        0,
        0,
        b"".join(
            _setting.pack(*one)
            # No table of headers: then each block of them can be read by itself.
            for one in ((TABLE_SIZE, 0), (ENABLE_PUSH, 0), (STREAM_WINDOW, OURS))
        ),
    )
    + frame(WINDOW_UPDATE, 0, 0, (OURS - WINDOW).to_bytes(4, "big"))
)
"""What a client says first."""
