"""The parts of HTTP/2 (RFC 9113): frames, their kinds and flags, the settings; pure."""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import count

from lockfast.backends.network.codec import ProtocolError

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

# Error codes
REFUSED_STREAM, CANCEL = 7, 8

FRAME_HEAD_BYTES = 9
"""Size of the header before the content of each frame."""

DEFAULT_WINDOW_BYTES = 65535
"""Bytes that may be sent, per stream and in total, until the receiver announces another window."""

FRAME_MAX_BYTES = 16384
"""Maximum content of a frame, unless the receiver has announced that it accepts more."""

HEADERS_MAX_BYTES = 2**16
"""Maximum size of headers that we read, which is many times the size of the headers in any
reply."""

LAST_STREAM = 2**31 - 1
"""The last stream number; after that a new connection is needed."""

_head = struct.Struct(">HBBBL")
_setting = struct.Struct(">HL")


class NotHttp2(ProtocolError):
    """The received bytes are not what a server of this protocol would send."""


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    """Return one frame."""
    size = len(content)
    return _head.pack(size >> 8, size & 0xFF, kind, flags, stream) + content


def head_of(data: bytearray, at: int) -> tuple[int, int, int, int]:
    """Return size, kind, flags and stream of the frame that begins at `at`."""
    large, small, kind, flags, stream = _head.unpack_from(data, at)
    return large << 8 | small, kind, flags, stream & LAST_STREAM


def settings(content: bytes) -> list[tuple[int, int]]:
    """Return the settings in a SETTINGS frame."""
    if len(content) % _setting.size:
        raise NotHttp2("settings of an odd length")
    return list(_setting.iter_unpack(content))


def number(content: bytes, at: int = 0) -> int:
    """Return the 32-bit number at `at`."""
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


OUR_WINDOW_BYTES = 2**24
"""Number of bytes that the server may send before we announce room for more. We read all input at
once, so this is never a limit in practice. The number only has to be larger than what a server
would send before our next frame reaches the server."""

CLIENT_PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(
        SETTINGS,
        0,
        0,
        b"".join(
            _setting.pack(*one)
            # Without a dynamic table of headers, each block of headers can be read independently.
            for one in ((TABLE_SIZE, 0), (ENABLE_PUSH, 0), (STREAM_WINDOW, OUR_WINDOW_BYTES))
        ),
    )
    + frame(WINDOW_UPDATE, 0, 0, (OUR_WINDOW_BYTES - DEFAULT_WINDOW_BYTES).to_bytes(4, "big"))
)
"""The first bytes that a client sends."""

# Headers of HTTP/2 (RFC 7541), without a dynamic table; pure.
#
# We write every header in full, and our settings keep the server from using a table too. So a block
# of headers means the same wherever it occurs, and the blocks that come with every reply are cached
# instead of parsed again.

STATIC = (
    *((b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/")),
    *((b":path", b"/index.html"), (b":scheme", b"http"), (b":scheme", b"https")),
    *((b":status", code) for code in (b"200", b"204", b"206", b"304", b"400", b"404", b"500")),
    *((b"accept-charset", b""), (b"accept-encoding", b"gzip, deflate")),
    *(
        (name, b"")
        for name in (
            b"accept-language accept-ranges accept access-control-allow-origin age allow "
            b"authorization cache-control content-disposition content-encoding content-language "
            b"content-length content-location content-range content-type cookie date etag expect "
            b"expires from host if-match if-modified-since if-none-match if-range "
            b"if-unmodified-since last-modified link location max-forwards proxy-authenticate "
            b"proxy-authorization range referer refresh retry-after server set-cookie "
            b"strict-transport-security transfer-encoding user-agent vary via www-authenticate"
        ).split()
    ),
)
"""The static table (RFC 7541, appendix A); its indices start at 1."""

METHOD_POST, SCHEME_HTTP, SCHEME_HTTPS = b"\x83", b"\x86", b"\x87"
AUTHORITY, PATH = 1, 4


# -- writing ---------------------------------------------------------------------------


def literal(name: int | bytes, value: bytes) -> bytes:
    """Return a header in full; `name` may be an index in the static table."""
    if isinstance(name, int):
        return _integer(name, bits=4) + _string(value)
    return b"\0" + _string(name) + _string(value)


def _string(data: bytes) -> bytes:
    return _integer(len(data), bits=7) + data


def _integer(number: int, *, bits: int) -> bytes:
    most = (1 << bits) - 1
    if number < most:
        return bytes((number,))
    number -= most
    groups = bytearray((most,))
    while number >= 0x80:  # noqa: PLR2004 - groups of seven bits
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


# -- reading ---------------------------------------------------------------------------


@lru_cache(64)
def headers(block: bytes) -> dict[bytes, bytes]:
    """Return the headers in a block; if a name occurs twice, the last value counts."""
    found: dict[bytes, bytes] = {}
    at = 0
    try:
        while at < len(block):
            first = block[at]
            if first & 0x80:
                place, at = _read_integer(block, at, bits=7)
                name, value = _known(place)
            elif first & 0xE0 == 0x20:  # noqa: PLR2004 - the size of a dynamic table
                _, at = _read_integer(block, at, bits=5)
                continue
            else:
                place, at = _read_integer(block, at, bits=6 if first & 0x40 else 4)
                name, _ = _known(place) if place else (b"", b"")
                if not place:
                    name, at = _read_string(block, at)
                value, at = _read_string(block, at)
            found[name] = value
    except IndexError:
        raise NotHttp2("headers end in the middle") from None
    return found


def _known(place: int) -> tuple[bytes, bytes]:
    if not 1 <= place <= len(STATIC):
        raise NotHttp2("a header out of a table that we do not keep")
    return STATIC[place - 1]


def _read_integer(block: bytes, at: int, *, bits: int) -> tuple[int, int]:
    most = (1 << bits) - 1
    number = block[at] & most
    at += 1
    if number < most:
        return number, at
    for shift in range(0, 35, 7):
        group = block[at]
        at += 1
        number += (group & 0x7F) << shift
        if group < 0x80:  # noqa: PLR2004 - the last group
            return number, at
    raise NotHttp2("a number in the headers is too long")


def _read_string(block: bytes, at: int) -> tuple[bytes, int]:
    is_huffman = bool(block[at] & 0x80)
    size, at = _read_integer(block, at, bits=7)
    end = at + size
    if end > len(block):
        raise NotHttp2("headers end in the middle")
    data = block[at:end]
    return _decoded(data) if is_huffman else data, end


# -- Huffman code (appendix B) ---------------------------------------------------------

# The code is canonical: codes of one length follow each other in the order of their characters, and
# the codes of the next length continue where those of the previous length ended. So the lengths
# define the code completely.
_LENGTHS: dict[int, bytes] = {
    5: b"012aceiost",
    6: b" %-./3456789=A_bdfghlmnpru",
    7: b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: b"&*,;XZ",
    10: b'!"()?',
    11: b"'+|",
    12: b"#>",
    13: b"\0$@[]~",
    14: b"^}",
    15: b"<`{",
    19: b"\\\xc3\xd0",
    20: b"\x80\x82\x83\xa2\xb8\xc2\xe0\xe2",
    21: b"\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6",
    22: b"\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe"
    b"\xc4\xc6\xe4\xe8\xe9",
    23: b"\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf"
    b"\xb4\xb6\xb7\xbc\xbf\xc5\xe7\xef",
    24: b"\x09\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed",
    25: b"\xc7\xcf\xea\xeb",
    26: b"\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff",
    27: b"\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe",
    28: b"\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a"
    b"\x1b\x1c\x1d\x1e\x1f\x7f\xdc\xf9",
    30: b"\n\r\x16",
}


def _codes() -> dict[tuple[int, int], int]:
    codes: dict[tuple[int, int], int] = {}
    code, before = 0, 5
    for length, characters in _LENGTHS.items():
        code <<= length - before
        before = length
        for character, each in zip(characters, count(code), strict=False):
            codes[length, each] = character
        code += len(characters)
    return codes


_CODES = _codes()
_LONGEST = 30


def _decoded(data: bytes) -> bytes:
    found = bytearray()
    code = length = 0
    for byte in data:
        for bit in range(7, -1, -1):
            code, length = code << 1 | byte >> bit & 1, length + 1
            character = _CODES.get((length, code))
            if character is not None:
                found.append(character)
                code = length = 0
            elif length >= _LONGEST:
                raise NotHttp2("a header is in no code that we know")
    # The remaining bits pad the last byte, and are all ones.
    if length > 7 or code != (1 << length) - 1:  # noqa: PLR2004
        raise NotHttp2("a header ends in the middle of a character")
    return bytes(found)
