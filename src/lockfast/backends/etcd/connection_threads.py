"""Transport and watch stream of etcd for threads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.etcd import errors
from lockfast.backends.etcd.http2.connection import Http2Connection
from lockfast.backends.etcd.http2.frames import NotHttp2
from lockfast.backends.etcd.http2.grpc import (
    BrokenCall,
    GrpcError,
    PingAction,
    StreamCall,
    UnaryCall,
    WatchPing,
    head,
)
from lockfast.backends.network.blocking_socket import BlockingSocket
from lockfast.backends.network.connection_threads import Connector
from lockfast.backends.waiting.listener_threads import Listener
from lockfast.errors import LockError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from lockfast.backends.network.target import Target
    from lockfast.runtime.clock import Clock

__all__ = ["EtcdConnection", "MemberTransport", "WatchStream"]

# The watch stream of the sync flavour has a connection of its own, which one thread at a time
# reads.

SEND_TIMEOUT_SECONDS = 5.0
"""Timeout for sending a message, in seconds; the messages are short."""


class WatchStream(Listener["EtcdConnection"]):
    """One stream; the thread that reads it passes on its messages."""

    _broken_by = (OSError, NotHttp2)

    def __init__(
        self,
        connection: EtcdConnection,
        head: bytes,
        on_message: Callable[[bytes], None],
        *,
        clock: Clock,
    ) -> None:
        super().__init__(connection, clock=clock)
        self._stream = StreamCall(head, on_message, self.leave)
        self._watch_ping = WatchPing(clock.now())
        connection.http2.begin(self._stream)
        try:
            connection.flush(deadline=clock.now() + SEND_TIMEOUT_SECONDS)
        except BaseException:
            # If no file descriptor is left, or after an interrupt, nothing else closes the
            # self-pipes.
            self._interrupts.close()
            self._guest_wakeups.close()
            raise

    @property
    def end(self) -> GrpcError | BrokenCall | None:
        """Why the stream ended; None while it is open, or if only this client left it."""
        return self._stream.end

    def send(self, message: bytes) -> bool:
        """Start or end a watch by sending `message`; false if the stream is broken."""
        return self._send(lambda: self._connection.http2.add(self._stream, message))

    def reply(self, message: bytes) -> None:
        """Send a message from within `on_message`; the message goes out after the current read."""
        self._connection.http2.add(self._stream, message)

    def _send(self, prepare: Callable[[], None]) -> bool:
        try:
            with self._using:  # another thread may be reading, and TLS allows only one at a time
                if not self._is_broken:
                    prepare()
                    self._connection.flush(deadline=self._clock.now() + SEND_TIMEOUT_SECONDS)
        except OSError:
            self.leave()
        except BaseException:
            self.leave()  # after an interrupt, part of the message may have been sent
            raise
        return not self._is_broken

    def leave(self) -> None:
        """End the stream, from any thread or from within `on_message`; its listener closes it."""
        self._is_broken = True
        self.interrupt()

    def listen(self, *, until: float) -> bool:
        """Pass on messages until `until` or an `interrupt`; false once the stream is broken."""
        answers = self._connection.http2.answers
        due = self._watch_ping.due(self._clock.now(), answers=answers)
        if due is PingAction.LEAVE:
            self.leave()
        elif due is PingAction.ASK:
            self._send(self._connection.http2.ping)
        return super().listen(until=until)

    def _has_more(self) -> bool:
        return self._connection.has_buffered()

    def _read(self) -> None:
        deadline = self._clock.now() + 1.0
        self._connection.read(deadline=deadline)
        self._connection.flush(deadline=deadline)


# The transport to one member in the sync flavour makes blocking calls on the caller's thread. The
# asyncio counterpart is `connection_aio`.
#
# A connection is used for one call at a time, although HTTP/2 allows many. Handing a reply from the
# thread that read it to the thread that waits would take longer than the request. So there are at
# most as many connections as threads that ever called at once. A call that is not answered in time
# closes its connection, which cancels the call at the member.


class PendingCall(UnaryCall):
    """A call; its outcome is kept for the thread that waits."""

    __slots__ = ("outcome",)

    def __init__(self, head: bytes, body: bytes) -> None:
        super().__init__(head, body)
        self.outcome: bytes | GrpcError | BrokenCall | None = None

    def ended(self, end: GrpcError | BrokenCall | None) -> None:
        """Keep the outcome."""
        self.outcome = self.result(end)


class EtcdConnection(BlockingSocket):
    """One connection, used by one thread at a time."""

    __slots__ = ("http2",)

    def __init__(self, sock: socket.socket, clock: Clock, generation: int) -> None:
        super().__init__(sock, clock, generation)
        self.http2: Http2Connection = Http2Connection()

    def greet(self, *, deadline: float) -> None:
        """Return once the handshake is complete, or raise OSError or NotHttp2."""
        self.flush(deadline=deadline)
        while not self.http2.is_handshake_done:
            self.read(deadline=deadline)

    def ask(self, call: PendingCall, *, deadline: float) -> None:
        """Return once the call has ended, or raise OSError or NotHttp2."""
        http2 = self.http2
        http2.begin(call)
        while not call.is_over:
            # Other output, such as the acknowledgement of settings, can wait for the next call.
            if data := http2.outgoing():
                self.send(data, deadline=deadline)
            http2.feed(self._receive(deadline))

    def flush(self, *, deadline: float) -> None:
        """Send the pending output, or raise OSError."""
        if data := self.http2.outgoing():
            self.send(data, deadline=deadline)

    def read(self, *, deadline: float) -> None:
        """Process the next input, or raise OSError or NotHttp2."""
        self.http2.feed(self._receive(deadline))

    def is_sound(self, now: float) -> bool:
        """Whether another call can use this connection, as far as can be seen without a request."""
        try:
            if self._has_come():
                # The input may be a frame that needs no immediate reply, or it may be the end of
                # the connection.
                self.read(deadline=now + 1.0)
        except (OSError, NotHttp2):
            return False
        return not self.http2.is_leaving


class MemberTransport(Connector[EtcdConnection]):
    """The transport to one member; `lost` is called when a connection fails or cannot be made."""

    def __init__(
        self, target: Target, *, clock: Clock, lost: Callable[[MemberTransport], None]
    ) -> None:
        super().__init__(
            target, unreachable=partial(errors.unreachable, target=target), clock=clock
        )
        self._head = partial(
            head, authority=str(target.endpoint).encode(), is_secure=target.tls is not None
        )
        self._lost = lost

    # -- requests ----------------------------------------------------------------------

    def ask(
        self, path: bytes, body: bytes, *, token: bytes, deadline: float, connect_by: float
    ) -> bytes | GrpcError:
        """Return the reply to one call, which may be a refusal.

        Raises BackendUnavailable if nothing was done, and OutcomeUnknown if no reply came.
        """
        call = PendingCall(self._head(path, token=token), body)
        connection = self._idle.take() or self.connect(deadline=connect_by)
        try:
            connection.ask(call, deadline=deadline)
        except (OSError, NotHttp2) as error:
            connection.close()
            self._lost(self)
            broken = BrokenCall(str(error) or type(error).__name__, call.is_undone)
            raise errors.unanswered(broken, where=self.where) from error
        except BaseException:
            # After a KeyboardInterrupt, for example, the reply is still on its way to this
            # connection.
            connection.close()
            raise
        self._idle.put_back(connection)
        if isinstance(call.outcome, bytes | GrpcError):
            return call.outcome
        assert call.outcome is not None  # noqa: S101 - the call is over
        raise errors.unanswered(call.outcome, where=self.where)

    def connect(self, *, deadline: float) -> EtcdConnection:
        """Return a new connection, which the caller has to close."""
        try:
            return super().connect(deadline=deadline)
        except LockError:
            self._lost(self)
            raise

    def _new_connection(self, sock: socket.socket, generation: int) -> EtcdConnection:
        return EtcdConnection(sock, self._clock, generation)

    def _greet(self, connection: EtcdConnection, until: float) -> None:
        connection.greet(deadline=until)

    # -- watching ----------------------------------------------------------------------

    def watch(
        self,
        path: bytes,
        on_message: Callable[[bytes], None],
        *,
        token: bytes,
        connect_by: float,
    ) -> WatchStream:
        """Return an open stream, on a connection of its own."""
        connection = self.connect(deadline=connect_by)
        begins = self._head(path, token=token, needs_leader=True)
        try:
            return WatchStream(connection, begins, on_message, clock=self._clock)
        except OSError as error:
            # The connection failed, or no file descriptors are left for the stream's self-pipes.
            connection.close()
            raise self._unreachable(error) from error
        except BaseException:  # after a refusal or an interrupt nobody will read the stream
            connection.close()
            raise
