"""What goes over the wire: replies however they are cut, names whatever they contain."""

from __future__ import annotations

import socket
import threading

import pytest
from servers.redis import shared_server

from lockfast import Locks
from lockfast.backends.redis import requests
from lockfast.backends.redis.connection.threads import Link
from lockfast.backends.redis.resp import NotRedis, Parser, Push, Refusal, packed
from lockfast.backends.wires.parsing import MORE
from lockfast.runtime.clock import Clock

REPLIES = (
    (b":1794772136277282\r\n", 1794772136277282),
    (b"+OK\r\n", b"OK"),
    (b"-NOPERM this user\r\n", Refusal("NOPERM this user")),
    (b"$5\r\na\r\nbc\r\n", b"a\r\nbc"),
    (b"$-1\r\n", None),
    (b"_\r\n", None),
    (b"#t\r\n", True),
    (b",1.5\r\n", 1.5),
    (b"(12345678901234567890\r\n", 12345678901234567890),
    (b"=6\r\ntxt:ab\r\n", b"ab"),
    (b"!8\r\nERR nope\r\n", Refusal("ERR nope")),
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
    """Byte by byte, or all in one piece."""
    stream = b"".join(data for data, _ in REPLIES)
    expected = [value for _, value in REPLIES]
    for size in (1, 2, 3, 7, 50, len(stream)):
        parser, values = Parser(), []
        for at in range(0, len(stream), size):
            parser.feed(stream[at : at + size])
            while (value := parser.next()) is not MORE:
                values.append(value)
        assert values == expected


def test_the_answer_to_what_was_sent_ahead_is_dropped() -> None:
    """However the server's words are cut: the reply is that to the request behind it."""
    asked, ahead = packed(b"TIME"), packed(b"PING")
    for first, rest in ((b"*2\r\n:1\r\n:2\r\n:7\r\n", b""), (b"*2\r\n:1\r\n", b":2\r\n:7\r\n")):
        ours, servers = socket.socketpair()
        with servers:
            link = Link(ours, Clock(), 0)
            servers.sendall(first)
            speaks = threading.Timer(0.01, servers.sendall, (rest,))
            speaks.start()

            reply = link.ask(asked, deadline=Clock().now() + 60.0, ahead=ahead)

            speaks.join()
            assert (reply, servers.recv(100)) == (7, ahead + asked)
            link.close()


@pytest.mark.parametrize("data", [b"HTTP/1.1 400 Bad Request\r\n", b"SSH-2.0-x", b"\x15\x03\x03"])
def test_another_protocol_is_noticed(data: bytes) -> None:
    """At its first byte, whether or not a line has ended."""
    parser = Parser()
    parser.feed(data)

    with pytest.raises(NotRedis):
        parser.next()


def test_arguments_are_counted_not_quoted() -> None:
    """Nothing in an argument can end it."""
    assert (
        packed(b"GET", b"a\r\nFLUSHALL\r\n") == b"*2\r\n$3\r\nGET\r\n$13\r\na\r\nFLUSHALL\r\n\r\n"
    )


@pytest.mark.parametrize("name", ["a", "{a}", "}{", "%7B", "%257B", "{}", "a}b", "x:door", "*?[a]"])
def test_a_name_is_found_again_in_its_key_and_chooses_no_slot(name: str) -> None:
    """The only braces in a key are ours, around the whole name."""
    keys = requests.Keys("app")

    key = keys.door(name)

    assert keys.name_of(key) == name
    assert key.count(b"{") == key.count(b"}") == 1
    assert key.startswith(b"app:{")
    assert key.endswith(b"}:door")


def test_the_driver_packs_nothing_by_c_code(monkeypatch):
    """An exception that a signal raises inside hiredis's packer ends the interpreter."""
    server = shared_server()
    monkeypatch.setattr("redis.connection.HIREDIS_AVAILABLE", True)
    monkeypatch.setattr("redis.connection.HiredisRespSerializer.pack", _refuse, raising=False)

    with Locks(server.url) as locks:
        assert locks.lock("door").acquire(timeout=10).token


def _refuse(*_: object) -> None:
    raise AssertionError("packed by hiredis")
