"""Headers of HTTP/2 (RFC 7541), without a dynamic table; pure.

We write every header in full, and we have told the server to keep no table for us either. So a
block of headers means the same wherever it stands, and those that come with every answer are
looked up and not read again.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import count

from lockfast.backends.etcd.http2.frames import NotHttp2

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
"""What every side knows (appendix A); counted from 1."""

METHOD_POST, SCHEME_HTTP, SCHEME_HTTPS = b"\x83", b"\x86", b"\x87"
AUTHORITY, PATH = 1, 4


# -- writing ---------------------------------------------------------------------------


def literal(name: int | bytes, value: bytes) -> bytes:
    """Return a header in full; the name may be its place in the table."""
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
    """Return the headers in a block; of a name that stands there twice, the last one."""
    found: dict[bytes, bytes] = {}
    at = 0
    try:
        while at < len(block):
            first = block[at]
            if first & 0x80:
                place, at = _read_integer(block, at, bits=7)
                name, value = _known(place)
            elif first & 0xE0 == 0x20:  # noqa: PLR2004 - how large its table is: we know
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
        if group < 0x80:  # noqa: PLR2004 - the last one
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


# -- Huffman's code (appendix B) -------------------------------------------------------

# It is canonical: codes of one length follow each other in the order of their characters, and
# the next length goes on where the last one ended. So the lengths say it all.
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
    # What is left fills the last byte, and is all ones.
    if length > 7 or code != (1 << length) - 1:  # noqa: PLR2004
        raise NotHttp2("a header ends in the middle of a character")
    return bytes(found)
