"""A server that completes the Redis handshake, and then sends what no Redis server sends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lockfast import LockError
from lockfast.backends.redis.resp import packed

PING = packed(b"PING")
ECHO = packed(b"ECHO", b"1")
CHANNEL = b"lockfast:inbox:1"

GREETING = b"%2\r\n+mode\r\n+standalone\r\n+proto\r\n:3\r\n"
GIBBERISH = {"HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n", "no number": b":four\r\n"}


def well_until(word: bytes, gibberish: bytes) -> Callable[[bytes], bytes]:
    """Return a function that answers correctly until a request contains the word."""

    def answer(data: bytes) -> bytes:
        answers = b""
        for command in data.split(b"*")[1:]:
            if word in command:
                return answers + gibberish
            answers += GREETING if b"HELLO" in command else b"+OK\r\n"
        return answers

    return answer


@pytest.fixture(params=GIBBERISH)
def call(request, flavour, talker):
    """Return a function that calls a transport whose server answers PING or SUBSCRIBE wrongly."""

    def call(verb: str, *arguments: object) -> object:
        word = b"SUBSCRIBE" if verb == "subscribe" else b"PING"
        url = talker(answer=well_until(word, GIBBERISH[request.param])).url
        transport = flavour.locks(url)._client.backend._transport
        deadline = flavour.clock.now() + 5
        return flavour.call(getattr(transport, verb), *arguments, deadline=deadline)

    return call


def test_it_is_an_error_of_ours_for_one_who_asks(call):
    with pytest.raises(LockError):
        call("ask", PING)


def test_it_is_an_error_of_ours_for_one_who_subscribes(call):
    """Only a LockError leaves the inbox thread running; without the thread no waiter is woken."""
    with pytest.raises(LockError):
        call("subscribe", CHANNEL, print)


def test_it_is_an_error_of_ours_in_place_of_each_answer_that_is_missing(call):
    """Replies before the gibberish are used, and each missing reply becomes a LockError."""
    first, *others = call("send_all", [ECHO, PING, ECHO])

    assert first == b"OK"
    assert [isinstance(one, LockError) for one in others] == [True, True]


@pytest.mark.parametrize("gibberish", GIBBERISH.values(), ids=GIBBERISH)
def test_it_is_an_error_of_ours_if_a_sentinel_says_it(refusal, talker, gibberish):
    port = talker(answer=lambda _: gibberish).port

    error = refusal(f"redis+sentinel://127.0.0.1:{port}/mymaster")

    assert "the Sentinel 127.0.0.1:" in str(error) or "no Sentinel" in str(error)


@pytest.mark.parametrize(
    "answer",
    [b"+OK\r\n", b":1\r\n", b"_\r\n", b"*1\r\n:1\r\n", b"*1\r\n*3\r\n:0\r\n:9\r\n:5\r\n"],
    ids=repr,
)
def test_it_is_an_error_of_ours_if_a_node_tells_it_for_the_map_of_slots(flavour, talker, answer):
    """A well-formed reply to CLUSTER SLOTS that is not a slot map raises a LockError."""
    port = talker(answer=well_until(b"CLUSTER", answer)).port
    transport = flavour.locks(f"redis+cluster://127.0.0.1:{port}")._client.backend._transport

    with pytest.raises(LockError, match="does not answer CLUSTER SLOTS as a node does"):
        flavour.call(transport.coverage, deadline=flavour.clock.now() + 5)
