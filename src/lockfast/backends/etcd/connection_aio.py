"""Transport and watch stream of etcd for asyncio."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, cast

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
from lockfast.backends.network.codec import SILENCE_SECONDS
from lockfast.backends.network.connection_aio import BufferedConnection, Connector
from lockfast.backends.waiting.listener_aio import Listener
from lockfast.errors import LockError
from lockfast.runtime import fork
from lockfast.runtime.tasks import SharedTimer

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.etcd.http2.grpc import GrpcCall
    from lockfast.backends.network.target import Target
    from lockfast.runtime.clock import Clock

__all__ = ["EtcdConnection", "MemberTransport", "WatchStream"]


# The watch stream of the asyncio flavour is one stream of the shared connection, which the event
# loop reads.


class WatchStream(Listener):
    """One stream on the connection that all calls share."""

    def __init__(
        self,
        connection: EtcdConnection,
        head: bytes,
        on_message: Callable[[bytes], None],
        *,
        clock: Clock,
    ) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        super().__init__(ended, clock=clock)
        self._connection = connection
        self._watch_ping = WatchPing(clock.now())
        self._stream = StreamCall(head, on_message, self.leave)
        connection.begin(self._stream)

    @property
    def end(self) -> GrpcError | BrokenCall | None:
        """Why the stream ended; None while it is open, or if only this client left it."""
        return self._stream.end

    def send(self, message: bytes) -> bool:
        """Start or end a watch by sending `message`; false if the stream is broken."""
        if not self._stream.is_over:
            self._connection.add(self._stream, message)
        return not self._stream.is_over

    def reply(self, message: bytes) -> None:
        """Send a message from within `on_message`."""
        self.send(message)

    def leave(self) -> None:
        """End the stream; its listener closes it afterwards."""
        if not self._lost.done():
            self._lost.set_result(None)

    async def listen(self, *, until: float) -> bool:
        """Return at `until`, or after `interrupt`; false once the stream has ended.

        The event loop passes messages to `on_message` as they arrive.
        """
        answers = self._connection.http2.answers
        due = self._watch_ping.due(self._clock.now(), answers=answers)
        if due is PingAction.LEAVE:
            # Every call on this connection waits for the same member, which does not respond.
            self._connection.lose(TimeoutError("no sign of life"))
        elif due is PingAction.ASK:
            self._connection.ping()
        return await super().listen(until=until)

    async def close(self) -> None:
        """Stop listening."""
        self._connection.give_up(self._stream)
        self.leave()


# The transport to one member in the asyncio flavour uses one connection for all calls. The sync
# counterpart is `connection_threads`.
#
# The calls of all tasks in one iteration of the loop are sent in one write, each call on a stream
# of its own. A call that is cancelled or times out is cancelled at the member too.

UNREAD_MAX_BYTES = 2**24
"""If a member leaves this many bytes unread, we assume that it does not read at all. The limit is
larger than all requests that may be under way at once. Without it, a peer that only sends pings
could exhaust our memory."""


class PendingCall(UnaryCall):
    """A call; a task waits for its outcome."""

    __slots__ = ("deadline", "outcome")

    def __init__(
        self, head: bytes, body: bytes, *, deadline: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(head, body)
        self.deadline: float = deadline
        self.outcome: asyncio.Future[bytes | GrpcError | BrokenCall] = loop.create_future()

    def ended(self, end: GrpcError | BrokenCall | None) -> None:
        """Pass the outcome to the task."""
        if not self.outcome.done():
            self.outcome.set_result(self.result(end))


class EtcdConnection(BufferedConnection):
    """One connection; all its times are on the loop's clock."""

    def __init__(self, *, lost: Callable[[EtcdConnection], None]) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self.handshake_done: asyncio.Future[None] = self._loop.create_future()
        self.http2: Http2Connection = Http2Connection()
        self._lost = lost
        self._is_lost = False
        self._is_flushing = False
        self._calls: set[PendingCall] = set()
        self._unanswered_since: float | None = None
        """When the first call was made since the member last answered anything."""
        self._timer = SharedTimer(self._check_deadlines)
        self._transport: asyncio.Transport

    @property
    def is_open(self) -> bool:
        """Whether another call can begin on this connection."""
        return not (self._is_lost or self.http2.is_leaving)

    # -- sending -----------------------------------------------------------------------

    async def ask(
        self, head: bytes, body: bytes, *, deadline: float
    ) -> bytes | GrpcError | BrokenCall:
        """Return the outcome of a call."""
        call = PendingCall(head, body, deadline=deadline, loop=self._loop)
        self.begin(call)
        self._calls.add(call)
        if self._unanswered_since is None:
            self._unanswered_since = self._loop.time()
        self._timer.at(deadline)
        try:
            return await call.outcome
        finally:
            self._calls.discard(call)
            if not call.is_over:
                self.give_up(call)  # a cancellation

    def begin(self, call: GrpcCall) -> None:
        """Begin a call."""
        self.http2.begin(call)
        self._flush_soon()

    def add(self, call: GrpcCall, message: bytes) -> None:
        """Send another message in a call that was left open."""
        self.http2.add(call, message)
        self._flush_soon()

    def give_up(self, call: GrpcCall) -> None:
        """Cancel a call."""
        self.http2.give_up(call)
        self._flush_soon()
        self._end_if_left()

    def ping(self) -> None:
        """Send a ping."""
        self.http2.ping()
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not (self._is_flushing or self._is_lost):
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        data = b"" if self._is_lost else self.http2.outgoing()
        if data:
            self._transport.write(data)
            if self._transport.get_write_buffer_size() > UNREAD_MAX_BYTES:
                self.lose(ConnectionError("the member does not read our requests"))

    # -- receiving ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send our part of the handshake."""
        # A TCP connection has this kind of transport, but uvloop's does not inherit from it.
        self._transport = cast("asyncio.Transport", transport)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Pass the replies to the calls that wait for them."""
        before = self.http2.answers
        try:
            self.http2.feed(data)
        except NotHttp2 as error:
            self.lose(error)
            return
        if self.http2.answers != before:
            is_awaited = any(not one.is_over for one in self._calls)
            self._unanswered_since = self._loop.time() if is_awaited else None
        if self.http2.is_handshake_done and not self.handshake_done.done():
            self.handshake_done.set_result(None)
        if self.http2.has_outgoing:
            # Flush later, so that the answered tasks run first and their next requests go out in
            # the same write.
            self._flush_soon()
        if self.http2.is_leaving:
            self._lost(self)
            self._end_if_left()

    def _end_if_left(self) -> None:
        if self.http2.is_leaving and self.http2.is_idle:
            self.lose(ConnectionError("the member closes the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        """End all calls."""
        self.lose(exc or ConnectionError("the member closed the connection"))

    def lose(self, error: Exception) -> None:
        """Drop the connection, and end all calls."""
        if self._is_lost:
            return
        self._is_lost = True
        if not self.handshake_done.done():
            self.handshake_done.set_exception(error)
            # Retrieve the exception, because asyncio reports one for which nothing waits.
            self.handshake_done.exception()
        self._timer.cancel()
        self._transport.abort()
        self.http2.lose(str(error) or type(error).__name__)
        self._lost(self)

    def close(self) -> None:
        """Close the connection."""
        self.lose(ConnectionError("closed"))

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        late = [one for one in self._calls if one.deadline <= now and not one.outcome.done()]
        # Give up the queued calls first. Otherwise they would take the streams that the other late
        # calls free.
        for one in sorted(late, key=lambda one: one.number > 0):
            # Give up the call now, and not when its task runs. Data that arrives in between may
            # allow another stream, and then a call that we report as not sent would be sent.
            self.http2.give_up(one)
            one.outcome.set_result(BrokenCall(errors.LATE, one.is_undone))
        moments = [one.deadline for one in self._calls if one.deadline > now]
        if (
            late
            and self._unanswered_since is not None
            and now >= self._unanswered_since + SILENCE_SECONDS
        ):
            # The network is cut, or the member is frozen, or it sends only what answers no call.
            # Another connection, or another member, may work.
            self.lose(TimeoutError(errors.LATE))
        elif moments:
            self._timer.at(min(moments))
        if late:
            self._flush_soon()
            self._end_if_left()


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
        self._connections: set[EtcdConnection] = set()

    # -- requests ----------------------------------------------------------------------

    async def ask(
        self, path: bytes, body: bytes, *, token: bytes, deadline: float, connect_by: float
    ) -> bytes | GrpcError:
        """Return the reply to one call, which may be a refusal.

        Raises BackendUnavailable if nothing was done, and OutcomeUnknown if no reply came.
        """
        connection = self._connection
        if connection is None or not connection.is_open:
            connection = await self._connected(connect_by)
        moment = asyncio.get_running_loop().time() + deadline - self._clock.now()
        outcome = await connection.ask(self._head(path, token=token), body, deadline=moment)
        if isinstance(outcome, BrokenCall):
            raise errors.unanswered(outcome, where=self.where)
        return outcome

    async def _connect_for_all(self, deadline: float) -> EtcdConnection:
        try:
            connection = await super()._connect_for_all(deadline)
        except LockError:
            self._lost(self)
            raise
        self._connections.add(connection)
        return connection

    def _new_connection(self) -> EtcdConnection:
        return EtcdConnection(lost=self._lose)

    async def _greet(self, connection: EtcdConnection, until: float) -> None:
        del until
        await connection.handshake_done

    def _lose(self, connection: EtcdConnection) -> None:
        if connection in self._connections and self._connection is connection:
            self._connection = None
            self._lost(self)
        if not connection.is_open:
            self._connections.discard(connection)

    # -- watching ----------------------------------------------------------------------

    async def watch(
        self,
        path: bytes,
        on_message: Callable[[bytes], None],
        *,
        token: bytes,
        connect_by: float,
    ) -> WatchStream:
        """Return an open stream."""
        connection = await self._connected(connect_by)
        begins = self._head(path, token=token, needs_leader=True)
        return WatchStream(connection, begins, on_message, clock=self._clock)

    # -- closing -----------------------------------------------------------------------

    def leave(self) -> None:
        """Stop using all connections opened so far."""
        for connection in list(self._connections):
            connection.close()

    async def close(self) -> None:
        """Close the connections."""
        await super().close()
        self.leave()

    def after_fork_in_child(self) -> None:
        """Abandon the parent's connections."""
        super().after_fork_in_child()
        fork.abandon(self._connections)
        self._connections = set()
