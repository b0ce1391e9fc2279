"""One HTTP/2 connection of a client: bytes in, bytes out, and calls in between; pure.

Only one thread or task may use it at a time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from lockfast.backends.etcd.http2 import frames
from lockfast.backends.etcd.http2.frames import NotHttp2, frame, headers
from lockfast.backends.etcd.http2.grpc import BrokenCall, check_beginning, end_of, prefixed

if TYPE_CHECKING:
    from lockfast.backends.etcd.http2.grpc import GrpcCall

STREAMS_MAX = 1 << 30
"""Maximum number of concurrent calls where the server sets no limit."""


class Http2Connection:
    """The state of a connection, and the output that has to be sent next."""

    def __init__(self) -> None:
        self.is_handshake_done: bool = False
        """Whether the server's first frame, its settings, has arrived."""
        self.is_leaving: bool = False
        """Whether no new call can begin; calls under way continue."""
        self.answers: int = 0
        """How often the server has sent a part of a reply, or answered a ping. Other frames, which
        a server may send at any time, do not show that it handles our calls."""
        self._calls: dict[int, GrpcCall] = {}
        self._queue: deque[GrpcCall] = deque()
        self._outgoing = [frames.CLIENT_PREFACE]
        self._incoming = bytearray()
        self._block = b""
        self._block_of: tuple[int, int] | None = None
        self._next_stream = 1
        self._room = self._stream_room = frames.DEFAULT_WINDOW_BYTES
        self._largest = frames.FRAME_MAX_BYTES
        self._most = STREAMS_MAX
        self._received = 0
        self._is_stuck = False

    # -- output ------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no call is under way."""
        return not self._calls and not self._queue

    @property
    def has_outgoing(self) -> bool:
        """Whether there is something to send."""
        return bool(self._outgoing)

    def outgoing(self) -> bytes:
        """Return the bytes to send now; empty if there are none."""
        pending, self._outgoing = self._outgoing, []
        return b"".join(pending)

    def begin(self, call: GrpcCall) -> None:
        """Begin a call, now or as soon as the server allows another one."""
        if self.is_leaving:
            self._end(call, BrokenCall("the connection is being closed", is_undone=True))
            return
        self._queue.append(call)
        self._begin_queued()

    def add(self, call: GrpcCall, message: bytes) -> None:
        """Send another message in a call that was left open."""
        call.unsent += prefixed(message)
        if call.number:
            self._send(call)

    def ping(self) -> None:
        """Send a ping."""
        self._outgoing.append(frame(frames.PING, 0, 0, bytes(8)))

    def give_up(self, call: GrpcCall) -> None:
        """Cancel a call, both here and at the server."""
        call.is_over = True
        if self._calls.pop(call.number, None) is not None:
            self._send_number(frames.RST_STREAM, call.number, frames.CANCEL)
            self._begin_queued()

    def lose(self, reason: str) -> None:
        """End all calls, because the connection is gone."""
        self.is_leaving = True
        calls = [*self._calls.values(), *self._queue]
        self._calls.clear()
        self._queue.clear()
        for call in calls:
            self._end(call, BrokenCall(reason, is_undone=call.is_undone))

    def _begin_queued(self) -> None:
        while self._queue and len(self._calls) < self._most:
            call = self._queue.popleft()
            if call.is_over:
                continue  # the call was given up meanwhile
            if self._next_stream > frames.LAST_STREAM:
                self._end(call, BrokenCall("the connection is used up", is_undone=True))
                continue
            call.number, call.room = self._next_stream, self._stream_room
            self._next_stream += 2
            self.is_leaving |= self._next_stream > frames.LAST_STREAM
            self._calls[call.number] = call
            self._outgoing.append(frame(frames.HEADERS, frames.END_HEADERS, call.number, call.head))
            self._send(call)

    def _send(self, call: GrpcCall) -> None:
        """Send as much of the call's body as the server's flow-control windows allow."""
        while call.unsent:
            size = min(len(call.unsent), call.room, self._room, self._largest)
            if size <= 0:
                self._is_stuck = True
                return
            content, call.unsent = call.unsent[:size], call.unsent[size:]
            call.room -= size
            self._room -= size
            flags = frames.END_STREAM if call.ends and not call.unsent else 0
            self._outgoing.append(frame(frames.DATA, flags, call.number, content))

    def _send_stuck(self) -> None:
        if self._is_stuck:
            self._is_stuck = False
            for call in self._calls.values():
                self._send(call)

    def _send_number(self, kind: int, stream: int, number: int) -> None:
        self._outgoing.append(frame(kind, 0, stream, number.to_bytes(4, "big")))

    def _end(self, call: GrpcCall, end: BrokenCall) -> None:
        if not call.is_over:
            call.is_over = True
            call.ended(end)

    # -- input -------------------------------------------------------------------------

    def feed(self, data: bytes) -> None:
        """Process received bytes and pass them to their calls; malformed bytes raise NotHttp2."""
        incoming = self._incoming
        incoming += data
        at, end = 0, len(incoming)
        while end - at >= frames.FRAME_HEAD_BYTES:
            size, kind, flags, stream = frames.head_of(incoming, at)
            if size > frames.FRAME_MAX_BYTES or not (
                self.is_handshake_done or kind == frames.SETTINGS
            ):
                raise NotHttp2("no frames of HTTP/2")
            if end - at < frames.FRAME_HEAD_BYTES + size:
                break
            at += frames.FRAME_HEAD_BYTES + size
            self._take(kind, flags, stream, bytes(incoming[at - size : at]))
        del incoming[:at]

    def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if 0 < stream < self._next_stream or (kind == frames.PING and flags & frames.ACK):
            self.answers += 1
        if self._block_of is not None and kind != frames.CONTINUATION:
            raise NotHttp2("something between two parts of headers")
        if kind == frames.DATA:
            self._take_data(flags, stream, content)
        elif kind == frames.HEADERS:
            self._block, self._block_of = frames.unpadded(flags, content), (stream, flags)
            self._take_headers(flags)
        elif kind == frames.CONTINUATION:
            if not content and not flags & frames.END_HEADERS:
                # An empty part does not make the headers longer, so the size limit would never stop
                # an endless series of empty parts.
                raise NotHttp2("headers without an end")
            self._block += content
            self._take_headers(flags)
        elif kind == frames.WINDOW_UPDATE:
            self._widen(stream, frames.number(content) & frames.LAST_STREAM)
        else:
            self._take_rare(kind, flags, stream, content)

    def _take_rare(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == frames.PING:
            if not flags & frames.ACK:
                self._outgoing.append(frame(frames.PING, frames.ACK, 0, content))
        elif kind == frames.SETTINGS:
            self._take_settings(flags, content)
        elif kind == frames.RST_STREAM:
            self._take_reset(stream, frames.number(content))
        elif kind == frames.GOAWAY:
            self._take_goaway(frames.number(content) & frames.LAST_STREAM)
        elif kind == frames.PUSH_PROMISE:
            raise NotHttp2("an answer to what nobody asked")

    def _take_data(self, flags: int, stream: int, content: bytes) -> None:
        self._received += len(content)
        if self._received > frames.OUR_WINDOW_BYTES // 2:
            self._send_number(frames.WINDOW_UPDATE, 0, self._received)
            self._received = 0
        call = self._calls.get(stream)
        if call is None:
            return  # the data belongs to a call that was given up
        if flags & frames.END_STREAM:
            raise NotHttp2("a call ended without a status")
        call.received += len(content)
        if call.received > frames.OUR_WINDOW_BYTES // 2:
            self._send_number(frames.WINDOW_UPDATE, stream, call.received)
            call.received = 0
        call.take(frames.unpadded(flags & frames.PADDED, content))

    def _take_headers(self, flags: int) -> None:
        if self._block_of is None:
            raise NotHttp2("a part of headers that were never begun")
        if len(self._block) > frames.HEADERS_MAX_BYTES:
            raise NotHttp2("headers without an end")
        if not flags & frames.END_HEADERS:
            return
        (stream, first_flags), block = self._block_of, self._block
        self._block_of = None
        call = self._calls.get(stream)
        if call is None:
            return  # the headers belong to a call that was given up
        found = headers(block)
        if not first_flags & frames.END_STREAM:
            check_beginning(found)
            return
        end = end_of(found)
        del self._calls[stream]
        call.is_over = True
        call.ended(end)
        if self._queue:
            self._begin_queued()

    def _take_reset(self, stream: int, reason: int) -> None:
        call = self._calls.pop(stream, None)
        if call is not None:
            is_undone = reason == frames.REFUSED_STREAM or call.is_undone
            self._end(call, BrokenCall(f"the call was reset ({reason})", is_undone=is_undone))
            self._begin_queued()

    def _take_settings(self, flags: int, content: bytes) -> None:
        if flags & frames.ACK:
            return
        for name, value in frames.settings(content):
            if name == frames.MOST_STREAMS:
                self._most = value
            elif name == frames.LARGEST_FRAME:
                self._largest = value
            elif name == frames.STREAM_WINDOW:
                for call in self._calls.values():
                    call.room += value - self._stream_room
                self._stream_room = value
        self.is_handshake_done = True
        self._outgoing.append(frame(frames.SETTINGS, frames.ACK, 0))
        self._send_stuck()
        self._begin_queued()

    def _widen(self, stream: int, more: int) -> None:
        if stream == 0:
            self._room += more
        elif stream in self._calls:
            self._calls[stream].room += more
        self._send_stuck()

    def _take_goaway(self, last: int) -> None:
        """Record that the server closes the connection, and begins no call numbered above `last`.

        A call that was left open would never end by itself, so the server cannot wait for its end.
        The caller has to use another connection.
        """
        self.is_leaving = True
        over = [call for call in self._calls.values() if call.number > last or not call.ends]
        queued, self._queue = self._queue, deque()
        for call in over:
            del self._calls[call.number]
        for call in (*over, *queued):
            is_undone = call.number > last or not call.number
            self._end(call, BrokenCall("the server closes the connection", is_undone=is_undone))
