"""Our half of HTTP/2 against the server half of h2, a package known to be correct.

The tests use no sockets: the output of one side is fed to the other side.
"""

from __future__ import annotations

from typing import Any

import hpack as their_hpack
import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    PingReceived,
    RequestReceived,
    StreamEnded,
    StreamReset,
)
from h2.settings import SettingCodes, Settings
from hypothesis import given
from hypothesis import strategies as st

from lockfast.backends.etcd.http2 import frames
from lockfast.backends.etcd.http2.connection import Http2Connection
from lockfast.backends.etcd.http2.frames import NotHttp2
from lockfast.backends.etcd.http2.grpc import (
    BrokenCall,
    GrpcError,
    StreamCall,
    UnaryCall,
    head,
    prefixed,
)

HEAD = head(b"/etcdserverpb.KV/Txn", authority=b"127.0.0.1:2379", is_secure=False, token=b"t")
BEGINNING = [(":status", "200"), ("content-type", "application/grpc")]
WELL = [("grpc-status", "0"), ("grpc-message", "")]


class Question(UnaryCall):
    """A call that records its outcome."""

    __slots__ = ("outcome",)

    def __init__(self, body: bytes = b"question") -> None:
        super().__init__(HEAD, body)
        self.outcome: Any = None

    def ended(self, end: GrpcError | BrokenCall | None) -> None:
        assert self.outcome is None
        self.outcome = self.result(end)


class Sides:
    """Both ends of a connection: our client, and h2 as the server."""

    def __init__(
        self, *, piece: int = 1 << 20, settings: dict[SettingCodes, int] | None = None
    ) -> None:
        self.ours = Http2Connection()
        self.theirs = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.theirs.local_settings = Settings(client=False, initial_values=settings)
        self.theirs.initiate_connection()
        self.bodies: dict[int, bytes] = {}
        self.events: list[Any] = []
        self._piece = piece
        self.exchange()

    def exchange(self) -> None:
        """Deliver all pending output of both sides, the server's output in pieces."""
        while True:
            said, answered = self.ours.outgoing(), b""
            if said:
                for event in self.theirs.receive_data(said):
                    self.events.append(event)
                    if isinstance(event, DataReceived):
                        body = self.bodies.get(event.stream_id, b"")
                        self.bodies[event.stream_id] = body + event.data
            answered = self.theirs.data_to_send()
            for at in range(0, len(answered), self._piece):
                self.ours.feed(answered[at : at + self._piece])
            if not said and not answered:
                return

    def take_all(self, stream: int) -> None:
        """Let the server acknowledge what it has read, so that the window opens again."""
        for event in self.events:
            if isinstance(event, DataReceived) and event.stream_id == stream:
                self.theirs.acknowledge_received_data(event.flow_controlled_length, stream)
        self.events.clear()
        self.exchange()

    def answer(self, stream: int, *messages: bytes, trailers: Any = WELL, pad: int = 0) -> None:
        """Send a reply with these messages from the server, and deliver it."""
        self.theirs.send_headers(stream, BEGINNING)
        for one in messages:
            self.theirs.send_data(stream, prefixed(one), pad_length=pad or None)
        self.theirs.send_headers(stream, trailers, end_stream=True)
        self.exchange()

    def ask(self, body: bytes = b"question") -> Question:
        """Begin a call, and deliver it to the server."""
        call = Question(body)
        self.ours.begin(call)
        self.exchange()
        return call


def test_a_call_and_its_answer():
    sides = Sides()

    call = sides.ask()
    sides.answer(1, b"answer")

    [asked] = [one for one in sides.events if isinstance(one, RequestReceived)]
    assert dict(asked.headers) == {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/etcdserverpb.KV/Txn",
        ":authority": "127.0.0.1:2379",
        "content-type": "application/grpc",
        "te": "trailers",
        "token": "t",
    }
    assert sides.bodies[1] == prefixed(b"question")
    assert any(isinstance(one, StreamEnded) for one in sides.events)
    assert call.outcome == b"answer"
    assert sides.ours.is_idle


@pytest.mark.parametrize("piece", [1, 2, 3, 7, 50, 1000])
def test_answers_are_read_however_they_are_cut(piece):
    sides = Sides(piece=piece)
    calls = [sides.ask() for _ in range(3)]

    for stream, call in zip((5, 1, 3), (calls[2], calls[0], calls[1]), strict=True):
        sides.answer(stream, b"answer to %d" % stream, pad=20)
        assert call.outcome == b"answer to %d" % stream


def test_a_refusal_is_read_with_its_words():
    sides = Sides()
    call = sides.ask()

    words = "etcdserver: 100%25 of %22space%22 \\ used%0a"
    sides.answer(1, trailers=[("grpc-status", "8"), ("grpc-message", words)])

    assert call.outcome == GrpcError("RESOURCE_EXHAUSTED", 'etcdserver: 100% of "space" \\ used\n')


def test_a_refusal_without_a_beginning():
    """A refusal may consist of a single block of headers."""
    sides = Sides()
    call = sides.ask()

    sides.theirs.send_headers(1, [*BEGINNING, ("grpc-status", "16")], end_stream=True)
    sides.exchange()

    assert call.outcome == GrpcError("UNAUTHENTICATED", "")


def test_headers_in_several_frames():
    sides = Sides()
    call = sides.ask()

    words = "x" * 40_000
    sides.answer(1, trailers=[("grpc-status", "2"), ("grpc-message", words)])

    assert call.outcome == GrpcError("UNKNOWN", words)


def test_an_answer_that_is_none():
    sides = Sides()
    call = sides.ask()

    sides.answer(1)

    assert call.outcome == BrokenCall("it ended well, and without an answer", is_undone=False)


@pytest.mark.parametrize("size", [16_379, 16_380, 65_530, 65_531, 300_000])
def test_a_large_question_waits_for_room(size):
    """A large request is sent only as far as the window allows; otherwise h2 would complain."""
    sides = Sides()

    call = sides.ask(b"q" * size)
    assert call.is_undone == (size > 65_530)
    while len(sides.bodies[1]) < size + 5:
        sides.take_all(1)
    sides.answer(1, b"answer")

    assert sides.bodies[1] == prefixed(b"q" * size)
    assert call.outcome == b"answer"


def test_the_room_that_a_server_gives_may_shrink():
    """The server's settings may arrive after we have sent more than they allow."""
    sides = Sides()
    sides.ask(b"q" * 60_000)
    sides.theirs.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
    sides.exchange()

    small = sides.ask(b"q" * 200)
    assert small.is_undone
    while small.is_undone:
        sides.take_all(1)
        sides.theirs.increment_flow_control_window(1000, 3)
        sides.exchange()

    assert sides.bodies[3] == prefixed(b"q" * 200)


def test_a_large_answer_is_taken():
    """A reply may exceed the window, because we acknowledge what we have read and open it again."""
    sides = Sides()
    call = sides.ask()
    answer = bytes(20 << 20)
    sides.theirs.send_headers(1, BEGINNING)
    data, sent = prefixed(answer), 0
    while sent < len(data):
        room = min(sides.theirs.local_flow_control_window(1), 16_384, len(data) - sent)
        assert room > 0, "we have not said that there is room"
        sides.theirs.send_data(1, data[sent : sent + room])
        sent += room
        sides.exchange()

    sides.theirs.send_headers(1, WELL, end_stream=True)
    sides.exchange()

    assert call.outcome == answer


def test_no_more_calls_are_under_way_than_a_server_bears():
    sides = Sides(settings={SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    calls = [sides.ask() for _ in range(4)]
    assert [call.number for call in calls] == [1, 3, 0, 0]

    sides.answer(3, b"answer")
    sides.ours.give_up(calls[3])
    sides.ours.give_up(calls[0])
    sides.exchange()

    assert [call.number for call in calls] == [1, 3, 5, 0]


def test_who_is_given_up_is_told_to_the_server_and_heard_no_more():
    sides = Sides()
    given_up, kept = sides.ask(), sides.ask()
    sides.theirs.send_headers(1, BEGINNING)
    sides.theirs.send_data(1, prefixed(b"late"))
    late = sides.theirs.data_to_send()

    sides.ours.give_up(given_up)
    sides.ours.feed(late)
    sides.exchange()
    sides.answer(3, b"answer")

    [reset] = [one for one in sides.events if isinstance(one, StreamReset)]
    assert (reset.stream_id, reset.error_code) == (1, ErrorCodes.CANCEL)
    assert given_up.outcome is None
    assert kept.outcome == b"answer"


@pytest.mark.parametrize(
    ("reason", "is_undone"),
    [(ErrorCodes.REFUSED_STREAM, True), (ErrorCodes.INTERNAL_ERROR, False)],
)
def test_a_call_that_the_server_resets(reason, is_undone):
    """Only the reset code REFUSED_STREAM means that nothing was done."""
    sides = Sides()
    call = sides.ask()

    sides.theirs.reset_stream(1, reason)
    sides.exchange()

    assert call.outcome.is_undone is is_undone


def test_a_server_that_takes_its_leave():
    """A leaving server completes the calls that it has begun; later calls were never begun."""
    sides = Sides()
    begun, late = sides.ask(), sides.ask()

    sides.theirs.close_connection(last_stream_id=1)
    sides.ours.feed(sides.theirs.data_to_send())
    too_late = Question()
    sides.ours.begin(too_late)

    assert begun.outcome is None
    assert sides.ours.is_leaving
    assert not sides.ours.is_idle
    assert late.outcome == BrokenCall("the server closes the connection", is_undone=True)
    assert too_late.outcome == BrokenCall("the connection is being closed", is_undone=True)


def test_a_lost_connection_tells_who_was_heard_and_who_cannot_have_been():
    sides = Sides(settings={SettingCodes.MAX_CONCURRENT_STREAMS: 2})
    whole, partial, queued = sides.ask(), sides.ask(b"q" * 100_000), sides.ask()

    sides.ours.lose("cut")

    assert whole.outcome == BrokenCall("cut", is_undone=False)
    assert partial.outcome == queued.outcome == BrokenCall("cut", is_undone=True)


def test_pings_are_answered_and_asked():
    sides = Sides()
    sides.theirs.ping(b"12345678")
    sides.ours.feed(sides.theirs.data_to_send())
    sides.ours.ping()

    kinds = [type(one).__name__ for one in sides.theirs.receive_data(sides.ours.outgoing())]

    assert kinds == ["PingAckReceived", PingReceived.__name__]


def test_all_streams_of_a_connection_may_be_used_up():
    sides = Sides()
    sides.ours._next_stream = frames.LAST_STREAM
    last, beyond = Question(), Question()
    sides.ours.begin(last)
    sides.ours.begin(beyond)

    assert last.number == frames.LAST_STREAM
    assert sides.ours.is_leaving
    assert beyond.outcome.is_undone


def test_a_call_that_goes_on():
    sides = Sides()
    heard: list[bytes] = []
    over: list[bool] = []
    call = StreamCall(HEAD, heard.append, lambda: over.append(True))
    sides.ours.begin(call)
    sides.ours.add(call, b"one")
    sides.exchange()
    sides.ours.add(call, b"two")
    sides.exchange()

    sides.theirs.send_headers(1, BEGINNING)
    sides.theirs.send_data(1, prefixed(b"a") + prefixed(b"b"))
    sides.exchange()
    assert heard == [b"a", b"b"]
    assert not over
    sides.theirs.send_headers(1, [("grpc-status", "14")], end_stream=True)
    sides.exchange()

    assert sides.bodies[1] == prefixed(b"one") + prefixed(b"two")
    assert call.end == GrpcError("UNAVAILABLE", "")
    assert over == [True]


# -- nonsense ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x15\x03\x03\x00\x02\x02\x46\0\0",
        bytes(64),
        frames.frame(frames.PING, 0, 0, bytes(8)),
    ],
    ids=["HTTP/1", "SSH", "TLS", "zeros", "no settings first"],
)
def test_another_protocol_is_noticed(data):
    with pytest.raises(NotHttp2):
        Http2Connection().feed(data)


@pytest.mark.parametrize(
    "data",
    [
        frames.frame(frames.SETTINGS, 0, 0, b"12345"),
        frames.frame(frames.PUSH_PROMISE, 0, 1, bytes(8)),
        frames.frame(frames.CONTINUATION, 0, 1, b""),
        frames.frame(frames.HEADERS, 0, 1, b"") + frames.frame(frames.PING, 0, 0, bytes(8)),
        frames.frame(frames.HEADERS, frames.END_HEADERS | frames.PADDED, 1, b"\x09"),
        frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xff"),
        frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xbe"),
        frames.frame(frames.HEADERS, frames.END_HEADERS, 1, frames.literal(b":status", b"404")),
        frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, b"\x88"),
        frames.frame(frames.DATA, frames.END_STREAM, 1, b""),
        frames.frame(frames.DATA, 0, 1, b"\x01\0\0\0\0"),
        frames.frame(frames.GOAWAY, 0, 0, b"12"),
    ],
)
def test_a_server_that_breaks_the_rules(data):
    sides = Sides()
    sides.ask()

    with pytest.raises(NotHttp2):
        sides.ours.feed(data)


@given(st.binary(max_size=100))
def test_headers_that_are_nonsense_are_refused_by_name(data):
    try:
        frames.headers(data)
    except NotHttp2:
        return


# -- headers -------------------------------------------------------------------------------

NAME = st.from_regex(r"[a-z][a-z-]{0,20}", fullmatch=True).map(str.encode)


@given(st.dictionaries(NAME, st.binary(max_size=300)), st.booleans())
def test_headers_of_others_are_read_as_they_were_written(headers, is_huffman):
    """The hpack package encodes these headers, with its header table switched off."""
    encoder = their_hpack.Encoder()
    encoder.header_table_size = 0

    block = encoder.encode(headers.items(), huffman=is_huffman)

    assert frames.headers(block) == headers


@given(st.dictionaries(NAME, st.binary(max_size=300)))
def test_headers_of_ours_are_read_by_others(headers):
    block = b"".join(frames.literal(name, value) for name, value in headers.items())

    assert dict(their_hpack.Decoder().decode(block, raw=True)) == headers


def test_every_header_that_all_know_is_known():
    for number in range(1, len(frames.STATIC) + 1):
        block = bytes((0x80 | number,))
        assert [*frames.headers(block).items()] == [
            (bytes(name), bytes(value))
            for name, value in their_hpack.Decoder().decode(block, raw=True)
        ]
    assert len(frames.STATIC) == 61


def test_every_byte_has_its_code():
    """The hpack package encodes every byte with its code from RFC 7541, and we decode it."""
    encoder = their_hpack.Encoder()
    encoder.header_table_size = 0
    everything = bytes(range(256))

    assert frames.headers(encoder.encode([(b"x", everything)], huffman=True)) == {b"x": everything}


def test_their_server_understands_that_we_are_going():
    """The h2 package finds nothing in our output that breaks the rules."""
    sides = Sides()
    for number in range(50):
        sides.ask(b"q" * number * 100)
        sides.take_all(2 * number + 1)
        sides.answer(2 * number + 1, b"a" * number * 100)

    assert not any(isinstance(one, ConnectionTerminated) for one in sides.events)
