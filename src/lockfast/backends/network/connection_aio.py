"""Connection and transport of the asyncio flavour: one multiplexed connection.

`connection_threads` is its counterpart. Requests that tasks make in one turn of the loop are sent
together; replies are matched to requests in order. A request that was cancelled or timed out keeps
its place in the queue, and its reply is read and dropped.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from lockfast.backends._async.single_flight import AsyncSingleFlight
from lockfast.backends.network.codec import (
    NEED_MORE,
    SILENCE_SECONDS,
    UNREADABLE,
    Misread,
    ProtocolError,
    UnsolicitedReply,
    misbehaved,
)
from lockfast.backends.network.errors import not_connected, not_sent, unanswered
from lockfast.backends.network.target import (
    AddressAttempts,
    Reachability,
    name_errors,
    ordered,
)
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import fork
from lockfast.runtime.tasks import SharedTimer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lockfast.backends.network.codec import Codec
    from lockfast.backends.network.target import Handshake, Target, Unreachable
    from lockfast.runtime.clock import Clock

__all__ = ["BufferedConnection", "Connector", "SocketConnection", "SocketTransport", "dial"]

# Making a connection.

P = TypeVar("P", bound=asyncio.BaseProtocol)


HANDSHAKE_FRACTION = 0.95
"""Fraction of the time for connecting that the TLS handshake may take, so that its own error comes
before the general one."""


async def dial(target: Target, address: str, made: Callable[[], P], *, seconds: float) -> P:
    """Return a connection to one address of the target, with TLS if the target has it.

    The caller limits the time; `seconds` only tell which part of connecting took too long.
    """
    loop = asyncio.get_running_loop()
    if target.endpoint is None:
        _, connection = await loop.create_unix_connection(made, target.path)
        return connection
    host, port = target.endpoint
    context = None if target.tls is None else target.tls.context()
    name = handshake_timeout = None
    if context is not None:
        name, handshake_timeout = host, max(0.001, seconds * HANDSHAKE_FRACTION)
    _, connection = await loop.create_connection(
        made,
        address,
        port,
        ssl=context,
        server_hostname=name,
        ssl_handshake_timeout=handshake_timeout,
    )
    return connection


async def addresses_of(target: Target, *, first: str) -> list[str]:
    """Return the IP addresses of the target's host, beginning with `first` if it is one."""
    if target.endpoint is None or target.literal is not None:
        return [target.literal or ""]  # spares the thread that asks the name service
    loop = asyncio.get_running_loop()
    with name_errors():
        found = await loop.getaddrinfo(*target.endpoint, type=socket.SOCK_STREAM)
    return ordered(found, first=first)


# A connection that all tasks share.

FLUSH_BATCH = 16
"""Number of requests after which a batch is sent before its turn of the loop ends, so that the
server has work while other tasks still write their requests."""


class ReplyTarget(Protocol):
    """The receiver of a reply: a future, or an object that collects several replies."""

    def done(self) -> bool:
        """Whether nobody waits for the reply any more."""
        ...

    def set_result(self, reply: Any, /) -> None:  # noqa: ANN401 - the protocol's
        """Receive the reply."""
        ...

    def set_exception(self, error: LockError, /) -> None:
        """Receive the error that takes the place of a reply."""
        ...


RECEIVE_BYTES = 2**16
"""Size of the buffer that a connection receives into. asyncio would otherwise allocate 256 KiB for
each receive; depending on the state of the heap, that takes up to 12 µs of the 90 µs of processor
time that acquire and release take."""


class BufferedConnection(asyncio.BufferedProtocol):
    """Receives into one buffer, and passes on what it received."""

    def __init__(self) -> None:
        self._received = memoryview(bytearray(RECEIVE_BYTES))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer to receive into."""
        del sizehint
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        """Process what was received."""
        self.data_received(bytes(self._received[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Process the data."""
        raise NotImplementedError


class SocketConnection(BufferedConnection):
    """One connection; all its times are on the loop's clock."""

    _special_reply: type | None = None
    """Class of the replies that go to `_take` instead of the next request in the queue."""

    def __init__(self, codec: Codec, *, where: str) -> None:
        super().__init__()
        self.where = where
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._end: BaseException | None = None
        self._codec = codec
        self._outbox: list[bytes] = []
        # Three columns, with an entry for each request that was sent or will be sent in this turn
        # of the loop: the receiver of the reply, the deadline and, once the request was sent, the
        # time of sending. With an object for each request, a thousand tasks would mean a thousand
        # more objects for the garbage collector to visit.
        self._waiting: deque[ReplyTarget] = deque()
        self._deadlines: deque[float] = deque()
        self._sent_at: deque[float] = deque()
        self._replied_at = 0.0
        self._timer = SharedTimer(self._check_deadlines)
        self._transport: asyncio.Transport
        self._write: Callable[[bytes], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Use this asyncio transport from now on."""
        # A TCP connection has this kind of transport, but uvloop's does not inherit from it.
        self._transport = cast("asyncio.Transport", transport)
        self._write = self._transport.write

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used."""
        return not self.lost.done()

    @property
    def owed(self) -> int:
        """Number of replies still to come, including replies for which nobody waits any more."""
        return len(self._waiting)

    def send(self, request: bytes, *, deadline: float) -> asyncio.Future[Any]:
        """Send a request and return the future of its reply, which fails if no reply comes."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        self.send_for(reply, request, deadline=deadline)
        return reply

    def send_for(self, reply: ReplyTarget, request: bytes, *, deadline: float) -> None:
        """Send a request whose reply goes to the given receiver."""
        if self._end is not None:
            # The server may close a new connection before the task that waits for it runs.
            reply.set_exception(not_sent(self._end, where=self.where))
            return
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(request)
        self._waiting.append(reply)
        self._deadlines.append(deadline)
        self._timer.at(deadline)

    async def run_handshake(self, steps: Handshake, *, until: float) -> None:
        """Send the requests of the steps, and send the steps their replies.

        Raises OSError if the connection ends, and ProtocolError if it is not understood.
        """
        with suppress(StopIteration):
            requests = next(steps)
            while True:
                requests = steps.send(await self._replies(requests, until))
        if self._end is not None:
            raise self._end

    async def _replies(self, requests: list[bytes], until: float) -> list[Any]:
        failure: BaseException | None = None
        if self._end is None:
            sent = [self.send(one, deadline=until) for one in requests]
            # Wait for all replies, because otherwise nothing would retrieve the error of a lost
            # reply.
            replies = await asyncio.gather(*sent, return_exceptions=True)
            failure = next((one for one in replies if isinstance(one, BaseException)), None)
            if failure is None:
                return replies
        if self._end is None:  # only this reply is late; the others may still come
            raise TimeoutError("no answer in time") from failure
        if isinstance(self._end, UnsolicitedReply):
            return [self._end.reply]
        raise self._end

    def ask(self, request: bytes, timeout: float) -> asyncio.Future[Any]:
        """Like `send`, with a timeout in seconds; sends at once if no other reply is awaited."""
        # All of this is in one stack frame, because every acquire and every release passes here.
        loop, outbox, waiting = self._loop, self._outbox, self._waiting
        deadline = loop.time() + timeout
        reply: asyncio.Future[Any] = asyncio.Future(loop=loop)
        outbox.append(request)
        waiting.append(reply)
        self._deadlines.append(deadline)
        if deadline < self._timer.moment:
            self._timer.at(deadline)
        if len(waiting) == 1:
            # No other request waits for a reply, so most likely only one task uses the connection.
            self._flush()
        elif len(outbox) == 1:
            loop.call_soon(self._flush)
        elif len(outbox) >= FLUSH_BATCH:
            self._flush()
        return reply

    def send_unanswered(self, request: bytes) -> None:
        """Send a request that has no reply of its own."""
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(request)

    def _flush(self) -> None:
        if self._outbox and self.is_open:
            unsent = len(self._waiting) - len(self._sent_at)
            self._sent_at.extend([self._loop.time()] * unsent)
            self._write(b"".join(self._outbox))
        self._outbox.clear()

    def data_received(self, data: bytes) -> None:
        """Pass the replies to the requests that wait for them."""
        now = self._loop.time()
        codec, special = self._codec, self._special_reply
        waiting, deadlines, sent_at = self._waiting, self._deadlines, self._sent_at
        try:
            codec.feed(data)
            while (reply := codec.next()) is not NEED_MORE:
                if reply.__class__ is special or not sent_at:
                    self._take(reply)
                else:
                    self._replied_at = now
                    deadlines.popleft()
                    sent_at.popleft()
                    if not (target := waiting.popleft()).done():
                        target.set_result(reply)
        except (ProtocolError, Misread, *UNREADABLE) as error:
            self._lose(error)

    def _take(self, reply: Any) -> None:  # noqa: ANN401 - the protocol's
        """Handle a reply of the `_special_reply` class, or a reply for which no request waits."""
        self._answer(reply)

    def _answer(self, reply: Any) -> None:  # noqa: ANN401 - as above
        if not self._sent_at:
            self._lose(UnsolicitedReply(reply))
            return
        self._replied_at = self._loop.time()
        self._deadlines.popleft()
        self._sent_at.popleft()
        if not (target := self._waiting.popleft()).done():
            target.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all waiting requests."""
        self._lose(exc or ConnectionError("the server closed the connection"))

    def _lose(self, error: BaseException) -> None:
        if self.lost.done():
            return
        self.lost.set_result(None)
        self._end = error
        self._transport.abort()
        self._timer.cancel()
        for number, one in enumerate(self._waiting):
            if one.done():
                continue
            if number >= len(self._sent_at):
                one.set_exception(not_sent(error, where=self.where))
            elif number == 0 and _is_unreadable(error):  # the reply to the first request
                one.set_exception(self._misread(error))
            else:
                one.set_exception(self._unanswered(error))
        for column in (self._waiting, self._deadlines, self._sent_at, self._outbox):
            column.clear()

    def _misread(self, error: BaseException) -> LockError:
        found = misbehaved(*error.args[:1], where=self.where)
        found.__cause__ = error
        return found

    def _unanswered(self, error: BaseException) -> LockError:
        return unanswered(error, where=self.where)

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        all_of_them = zip(self._waiting, self._deadlines, strict=True)
        for one in [one for one, deadline in all_of_them if deadline <= now and not one.done()]:
            one.set_exception(self._unanswered(TimeoutError("no answer in time")))
        moments = [one for one in self._deadlines if one > now]
        # Late requests stay in the columns, so the first late request shows how long the silence
        # has lasted.
        unheard = (
            sent_at
            for sent_at, deadline in zip(self._sent_at, self._deadlines, strict=False)
            if deadline <= now and sent_at >= self._replied_at
        )
        silent_since = next(unheard, None)
        if silent_since is not None:
            if now >= silent_since + SILENCE_SECONDS:
                # No reply has come since the request was sent. The path is cut, and stays cut for
                # as long as the kernel repeats its packets; or the server sends only what answers
                # no request. A new connection may find another path.
                self._lose(TimeoutError("no answer in time"))
                return
            moments.append(silent_since + SILENCE_SECONDS)
        if moments:
            self._timer.at(min(moments))

    def close(self) -> None:
        """Close the connection."""
        self._lose(ConnectionError("closed"))


def _is_unreadable(error: BaseException) -> bool:
    return bool(error.args) and isinstance(error, (ProtocolError, *UNREADABLE))


class NetworkConnection(Protocol):
    """The part of a connection that its connector needs."""

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


AnyConnection = TypeVar("AnyConnection", bound="NetworkConnection")
ConnectionT = TypeVar("ConnectionT", bound=SocketConnection)


class Connector(Reachability, Generic[AnyConnection]):
    """Connects to one server; a store brings its kind of connection, and how that begins."""

    def __init__(self, target: Target, *, unreachable: Unreachable, clock: Clock) -> None:
        super().__init__(target, unreachable=unreachable, clock=clock)
        self._connection: AnyConnection | None = None
        self._connecting = AsyncSingleFlight[AnyConnection](clock)

    async def _connected(self, deadline: float) -> AnyConnection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if deadline <= self._clock.now():
            raise not_connected(where=self.where)
        # All requests made meanwhile wait for the same attempt to connect, and none of them can
        # cancel it.
        connecting = await self._connecting.run_shared(
            partial(self._connect_for_all, deadline), deadline=deadline
        )
        if connecting.is_known:
            return connecting.result()
        if connecting.is_stopped:
            raise BackendUnavailable(f"{self.where}: closed before there was a connection")
        raise self._unreachable(TimeoutError("no connection in time"))

    async def _connect_for_all(self, deadline: float) -> AnyConnection:
        self._connection = connection = await self.connect(deadline=deadline)
        return connection

    async def connect(self, *, deadline: float) -> AnyConnection:
        """Return a new connection, which the caller has to close.

        Raises BackendUnavailable, or ConfigurationError for what does not pass by waiting.
        """
        return await self._connect_to(self._target, deadline)

    async def _connect_to(self, target: Target, deadline: float) -> AnyConnection:
        if deadline <= self._clock.now():
            raise not_connected(where=self.where)
        until = self._loop_time(deadline)
        try:
            async with asyncio.timeout_at(until):
                attempts = AddressAttempts(await addresses_of(target, first=self._answered_at))
        except OSError as error:
            raise self._unreachable(error) from error
        for address in attempts:
            now = asyncio.get_running_loop().time()
            try:
                connection = await self._connect_at(
                    target, address, now + attempts.share(until - now)
                )
            except LockError as error:
                attempts.failed(error)
            else:
                self._answered(address)
                return connection
        raise attempts.pop_error()

    async def _connect_at(self, target: Target, address: str, until: float) -> AnyConnection:
        connection: AnyConnection | None = None
        try:
            async with asyncio.timeout_at(until):
                seconds = until - asyncio.get_running_loop().time()
                connection = await dial(target, address, self._new_connection, seconds=seconds)
                await self._greet(connection, until)
        except BaseException as error:
            if connection is not None:  # after a cancellation too nobody will use it
                connection.close()
            if (failure := self._failure(error)) is None:
                raise
            try:
                raise failure from error
            finally:
                del failure  # see `AddressAttempts.pop_error`
        return connection

    def _new_connection(self) -> Any:  # noqa: ANN401 - an asyncio.Protocol that is AnyConnection
        """Return the object for a new connection."""
        raise NotImplementedError

    async def _greet(self, connection: AnyConnection, until: float) -> None:
        """Return once the connection can be used; `until` is on the loop's clock."""
        raise NotImplementedError

    def _loop_time(self, deadline: float) -> float:
        return asyncio.get_running_loop().time() + deadline - self._clock.now()

    # -- closing -----------------------------------------------------------------------

    def leave(self) -> None:
        """Stop using every connection made so far, including a connection that listens."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._connecting.end()
        if self._connection is not None:
            self.leave()
            await asyncio.sleep(0)  # asyncio closes the socket in the loop's next turn

    def hang_up(self) -> None:
        """Do nothing, because a task that is connecting can be cancelled, unlike a thread."""

    def after_fork_in_child(self) -> None:
        """Abandon the parent's connection."""
        fork.abandon(self._connection)
        self._connection = None
        self._connecting.after_fork_in_child()


class SocketTransport(Connector[ConnectionT]):
    """Requests and replies on one connection, which is made on the first request."""

    def ask(self, request: bytes, *, deadline: float) -> Awaitable[Any]:
        """Return the reply to one request, which may be a refusal; callers must await it at once.

        Raises BackendUnavailable if nothing was sent, and OutcomeUnknown if no reply came.
        """
        connection = self._connection
        if connection is None or connection.lost.done():
            return self._connect_and_ask(request, deadline)
        # Return the future instead of awaiting it here, because a woken task would have to pass
        # through this frame too.
        return connection.ask(request, deadline - self._clock.now())

    async def _connect_and_ask(self, request: bytes, deadline: float) -> Any:  # noqa: ANN401
        connection = await self._connected(deadline)
        return await connection.send(request, deadline=self._loop_time(deadline))

    async def send_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Any]:
        """Send several requests together; return each reply, or an error if that reply is lost."""
        connection = await self._connected(deadline)
        moment = self._loop_time(deadline)
        replies = [connection.send(one, deadline=moment) for one in requests]
        return await asyncio.gather(*replies, return_exceptions=True)

    async def _greet(self, connection: ConnectionT, until: float) -> None:
        await connection.run_handshake(await self._handshake(), until=until)

    async def _handshake(self) -> Handshake:
        """Return the first exchange on a new connection."""
        raise NotImplementedError
