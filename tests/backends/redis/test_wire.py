"""Parsing of replies, however they are split, and encoding of names, whatever they contain."""

from __future__ import annotations

import pytest
from servers.redis import shared_server

from lockfast import Locks
from lockfast.backends.network.codec import NEED_MORE
from lockfast.backends.redis import requests
from lockfast.backends.redis.resp import ErrorReply, Push, RespCodec, RespError, packed

REPLIES = (
    (b":1794772136277282\r\n", 1794772136277282),
    (b"+OK\r\n", b"OK"),
    (b"-NOPERM this user\r\n", ErrorReply("NOPERM this user")),
    (b"$5\r\na\r\nbc\r\n", b"a\r\nbc"),
    (b"$-1\r\n", None),
    (b"_\r\n", None),
    (b"#t\r\n", True),
    (b",1.5\r\n", 1.5),
    (b"(12345678901234567890\r\n", 12345678901234567890),
    (b"=6\r\ntxt:ab\r\n", b"ab"),
    (b"!8\r\nERR nope\r\n", ErrorReply("ERR nope")),
    (b"*2\r\n:1\r\n*1\r\n$1\r\nx\r\n", [1, [b"x"]]),
    (b"*4\r\n$4\r\n\r\n:1\r\n$0\r\n\r\n$-1\r\n:-3\r\n", [b"\r\n:1", b"", None, -3]),
    (b"%1\r\n+a\r\n:1\r\n", {b"a": 1}),
    (b"~1\r\n:7\r\n", [7]),
    (b">3\r\n$7\r\nmessage\r\n+c\r\n+m\r\n", Push([b"message", b"c", b"m"])),
    (b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n", Push([b"message", b"c", b""])),
    (
        b">3\r\n$7\r\nmessage\r\n$6\r\nc\r\n$1\r\r\n$6\r\nm\r\n$9\n\r\n",
        Push([b"message", b"c\r\n$1\r", b"m\r\n$9\n"]),
    ),
    (b"|1\r\n+a\r\n:1\r\n:5\r\n", 5),
)


def test_replies_are_read_however_they_are_cut() -> None:
    """Replies are parsed alike whether they come byte by byte or all at once."""
    stream = b"".join(data for data, _ in REPLIES)
    expected = [value for _, value in REPLIES]
    for size in (1, 2, 3, 7, 50, len(stream)):
        parser, values = RespCodec(), []
        for at in range(0, len(stream), size):
            parser.feed(stream[at : at + size])
            while (value := parser.next()) is not NEED_MORE:
                values.append(value)
        assert values == expected


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n", b"SSH-2.0-x", b"\x15\x03\x03"])
def test_another_protocol_is_noticed(data: bytes) -> None:
    """Another protocol is noticed at its first byte, even before a line has ended."""
    parser = RespCodec()
    parser.feed(data)

    with pytest.raises(RespError):
        parser.next()


def test_arguments_are_counted_not_quoted() -> None:
    """Arguments are sent with their length, so no byte in an argument can end it."""
    assert (
        packed(b"GET", b"a\r\nFLUSHALL\r\n") == b"*2\r\n$3\r\nGET\r\n$13\r\na\r\nFLUSHALL\r\n\r\n"
    )


@pytest.mark.parametrize("name", ["a", "{a}", "}{", "%7B", "%257B", "{}", "a}b", "x:door", "*?[a]"])
def test_a_name_is_found_again_in_its_key_and_chooses_no_slot(name: str) -> None:
    """A key contains only our own braces, around the whole encoded name."""
    keys = requests.RedisKeys("app")

    key = keys.door(name)

    assert keys.name_of(key) == name
    assert key.count(b"{") == key.count(b"}") == 1
    assert key.startswith(b"app:{")
    assert key.endswith(b"}:door")


def test_the_driver_packs_nothing_by_c_code(monkeypatch):
    """The hiredis packer is not used: a signal that raises inside it ends the interpreter."""
    server = shared_server()
    monkeypatch.setattr("redis.connection.HIREDIS_AVAILABLE", True)
    monkeypatch.setattr("redis.connection.HiredisRespSerializer.pack", _refuse, raising=False)

    with Locks(server.url) as locks:
        assert locks.lock("door").acquire(timeout=10).token


def _refuse(*_: object) -> None:
    raise AssertionError("packed by hiredis")
