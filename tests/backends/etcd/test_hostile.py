"""An impostor in the place of etcd: what we accept is bounded, and the errors are clear."""

from __future__ import annotations

import threading
import time

import pytest
from backends.etcd.impostors import BEGINNING, GREETING, at_each_call, end, message, refusal
from backends.etcd.transports import SessionWatches

from lockfast import BackendMisbehaved, BackendUnavailable, LockError, OutcomeUnknown
from lockfast.backends.etcd import connection_aio, errors, requests
from lockfast.backends.etcd.http2 import frames, grpc
from lockfast.backends.etcd.http2.connection import Http2Connection
from lockfast.backends.etcd.http2.frames import NotHttp2, frame
from lockfast.backends.etcd.http2.grpc import GrpcError, UnaryCall, prefixed
from lockfast.backends.etcd.protobuf import UnreadableMessage, message_field, number_field
from lockfast.backends.etcd.replies import NESTED_TRANSACTIONS_MAX, Ranged, Transacted, read_reply
from lockfast_challenge.processes import eventually

END = frames.END_HEADERS | frames.END_STREAM


class Question(UnaryCall):
    """A call that keeps its outcome."""

    outcome: object = None

    def ended(self, end):
        self.outcome = self.result(end)


@pytest.fixture
def asked() -> Http2Connection:
    """A connection on which one call waits for its reply."""
    talk = Http2Connection()
    talk.feed(GREETING)
    talk.begin(Question(b"", b"question"))
    return talk


# -- frames --------------------------------------------------------------------------------


def test_a_frame_that_is_larger_than_agreed(asked):
    with pytest.raises(NotHttp2):
        asked.feed(b"\xff\xff\xff" + bytes(6))


def test_headers_without_an_end(asked):
    """Headers without an end are refused before they grow large."""
    part = bytes(frames.FRAME_MAX_BYTES)
    asked.feed(frame(frames.HEADERS, 0, 1, part))
    asked.feed(frame(frames.CONTINUATION, 0, 1, part) * 3)

    with pytest.raises(NotHttp2, match="without an end"):
        asked.feed(frame(frames.CONTINUATION, 0, 1, b"x"))


def test_headers_that_never_come_nearer_to_their_end(asked):
    asked.feed(frame(frames.HEADERS, 0, 1, b""))

    with pytest.raises(NotHttp2, match="without an end"):
        asked.feed(frame(frames.CONTINUATION, 0, 1, b""))


def test_headers_as_large_as_they_may_be_are_read_at_once(asked):
    """Huffman codes are decoded bit by bit, but even the worst input must not take long."""
    text = b"\xff" * 16000  # bits that encode no character
    head = frames.literal(b"grpc-status", b"0") + b"\0\x01x" + b"\xff\xe1\x7c" + text
    begun = time.process_time()

    with pytest.raises(NotHttp2):
        asked.feed(frame(frames.HEADERS, END, 1, head))

    assert time.process_time() - begun < 5


def test_a_message_that_is_larger_than_any(asked):
    """The first five bytes announce the size, so the message is refused without being buffered."""
    asked.feed(frame(frames.HEADERS, frames.END_HEADERS, 1, BEGINNING))

    with pytest.raises(NotHttp2, match="more than anybody"):
        asked.feed(frame(frames.DATA, 0, 1, b"\0" + grpc.MESSAGE_MAX_BYTES.to_bytes(4, "big")))


@pytest.mark.parametrize("status", [b"9" * 5000, b"-1", b"", b"1.5", b"\xb2"])
def test_a_status_that_is_none(asked, status):
    with pytest.raises(NotHttp2):
        asked.feed(refusal(1, "no", status=status))


def test_words_that_are_not_for_people():
    """Otherwise a control sequence in an error message would reach the user's terminal."""
    words = "\x1b[2J\nroot:" + "x" * 5000

    error = errors.refused(GrpcError("INTERNAL", words), where="etcd://h")

    assert str(error).startswith("etcd://h: INTERNAL  [2J root:xx")
    assert len(str(error)) < 2 * errors.SHOWN_CHARACTERS


# -- messages ------------------------------------------------------------------------------


def test_the_time_that_a_message_takes_grows_with_its_length():
    """Decoding took minutes for this many keys when it copied the whole list for each key."""
    one = message_field(2, message_field(1, b"key"))
    begun = time.process_time()

    found = read_reply(Ranged, one * 300_000)

    assert len(found.keys) == 300_000
    assert time.process_time() - begun < 20


@pytest.mark.parametrize("depth", [NESTED_TRANSACTIONS_MAX + 1, 3000])
def test_transactions_in_transactions_without_an_end(depth):
    data = number_field(2, 1)
    for _ in range(depth):
        data = message_field(3, message_field(4, data))

    with pytest.raises(UnreadableMessage, match="deeper"):
        read_reply(Transacted, data)


def test_transactions_as_deep_as_ours_are_read():
    data = number_field(2, 1)
    for _ in range(NESTED_TRANSACTIONS_MAX):
        data = message_field(3, message_field(4, data))

    found = read_reply(Transacted, data)

    for _ in range(NESTED_TRANSACTIONS_MAX):
        [found] = found.answers
    assert found.succeeded


# -- end to end ----------------------------------------------------------------------------


def test_an_answer_that_cannot_be_read(wire_to, talker, key):
    """The error says that the reply cannot be read, and the connection is not kept."""
    said = at_each_call(lambda stream: message(stream, prefixed(b"\xff" * 40)) + end(stream))
    transport = wire_to(talker(greeting=GREETING, answer=said).url)

    with pytest.raises(BackendMisbehaved, match="cannot be read"):
        transport.ask(requests.range_(key))

    assert transport.is_left()


def _saying(*answers: bytes):
    """Answer a connection's calls with these bodies in order, then keep repeating the last one."""

    def said(stream: int) -> bytes:
        body = answers[min(stream // 2, len(answers) - 1)]
        return message(stream, prefixed(body)) + end(stream)

    return at_each_call(said)


SUCCEEDED = number_field(2, 1)
FOUND, EMPTY = (message_field(3, message_field(kind, b"\x20\0")) for kind in (1, 9))
TWO_KEYS = message_field(3, message_field(1, message_field(2, message_field(1, b"key")) * 2))
TAKEN = message_field(3, message_field(4, SUCCEEDED))

ASKED = requests.transaction(
    [],
    [requests.transaction([], [requests.put(b"key", b"")], [requests.delete(b"key")])],
    [requests.range_(b"key")],
)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="too few"),
        pytest.param(FOUND * 2, id="too many"),
        pytest.param(EMPTY, id="none at all"),
        pytest.param(SUCCEEDED + FOUND, id="another kind"),
        pytest.param(SUCCEEDED + TAKEN, id="too few inside of another"),
        pytest.param(TWO_KEYS, id="more keys than were asked for"),
    ],
)
def test_a_transaction_whose_answers_are_not_to_what_was_asked(wire_to, talker, said):
    """A reply that can be read but does not fit the request is refused before any code uses it."""
    transport = wire_to(talker(greeting=GREETING, answer=_saying(said)).url)

    with pytest.raises(BackendMisbehaved, match="cannot be read"):
        transport.ask(ASKED)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        pytest.param(requests.range_(b"a", b"b"), number_field(3, 1), id="more of nothing"),
        pytest.param(requests.range_(b"a"), message_field(2, b"") * 2, id="a key twice"),
        pytest.param(requests.grant(5), number_field(3, 5), id="a lease without a number"),
        pytest.param(requests.grant(5), number_field(2, 7), id="a lease without a time"),
    ],
)
def test_an_answer_that_contradicts_itself(wire_to, talker, asked, said):
    transport = wire_to(talker(greeting=GREETING, answer=_saying(said)).url)

    with pytest.raises(BackendMisbehaved, match="cannot be read"):
        transport.ask(asked)


def test_a_login_whose_answer_cannot_be_read(wire_to, talker, key):
    url = talker(greeting=GREETING, answer=_saying(b"\xff" * 40)).url
    transport = wire_to(url.replace("://", "://clerk:sesame@"))

    with pytest.raises(BackendMisbehaved, match="cannot be read"):
        transport.ask(requests.range_(key))


def test_a_session_that_is_there_already_and_is_not(flavour, talker):
    """The session's key exists for the condition, but not for the read in the same transaction."""
    granted = number_field(2, 7) + number_field(3, 60)
    locks = flavour.locks(talker(greeting=GREETING, answer=_saying(granted, FOUND)).url)

    with pytest.raises(BackendMisbehaved, match="and is not"):
        locks.lock("door").try_acquire()


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 100,
        frame(frames.PUSH_PROMISE, 0, 1, bytes(8)),
        frame(frames.HEADERS, END, 1, b"\xff\xff\xff\xff\xff\xff\xff"),
        frame(frames.DATA, frames.END_STREAM, 1, b""),
        frame(frames.CONTINUATION, 0, 1, b"x"),
        frame(frames.SETTINGS, 0, 0, b"odd"),
        frame(frames.GOAWAY, 0, 0, b""),
    ],
)
def test_garbage_instead_of_an_answer(wire_to, talker, key, garbage):
    """The outcome of the request is unknown, and the caller does not wait for the deadline."""
    transport = wire_to(talker(greeting=GREETING, answer=at_each_call(lambda _: garbage)).url)

    with pytest.raises((OutcomeUnknown, BackendUnavailable), match="did not answer"):
        transport.ask(requests.put(key, b""))


def test_an_event_that_cannot_be_read_ends_the_stream(wire_to, talker, key):
    """The watcher's callback receives None: the state is unknown, and has to be read again."""
    said = at_each_call(lambda stream: message(stream, prefixed(b"\xff" * 40)))
    watches = SessionWatches(wire_to(talker(greeting=GREETING, answer=said).url))
    told: list[object] = []

    watches.watch(key, told.append)

    eventually(lambda: told == [None], what="it is told")
    watches.close()


def test_whoever_asks_for_signs_of_life_and_reads_none_of_them(wire_to, talker, key, monkeypatch):
    """The data queued for a server that reads nothing is bounded, and so is the time of a call."""
    monkeypatch.setattr(connection_aio, "UNREAD_MAX_BYTES", 100_000)
    pings = frame(frames.PING, 0, 0, bytes(8)) * 1_000_000  # more than the kernel buffers
    is_over = threading.Event()

    def reads_no_more(_: bytes) -> bytes:
        is_over.wait(60)
        return b""

    transport = wire_to(talker(greeting=GREETING + pings, answer=reads_no_more).url)

    try:
        with pytest.raises(LockError):
            transport.ask(requests.put(key, b""), within=1.0)

        eventually(transport.is_left, what="the connection is given up")
    finally:
        is_over.set()
