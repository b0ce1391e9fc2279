"""Connection and transport of the asyncio flavour: one multiplexed connection.

`connection_threads` is its counterpart. Requests that tasks make in one turn of the loop are sent
together; replies are matched to requests in order. A request that was cancelled or timed out keeps
its place in the queue, and its reply is read and dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lockfast.backends._async.single_flight import AsyncSingleFlight
from lockfast.backends.network.codec import (
    NEED_MORE,
    UNREADABLE,
    Misread,
    ProtocolError,
    misbehaved,
)
from lockfast.backends.network.errors import unanswered
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import fork
from lockfast.runtime.tasks import SharedTimer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from lockfast.backends.network.codec import Codec
    from lockfast.runtime.clock import Clock

__all__ = ["SocketConnection", "SocketTransport"]

FLUSH_BATCH = 16
"""Number of requests after which a batch is sent before its turn of the loop ends, so that the
server has work while other tasks still write their requests."""

SILENCE_SECONDS = 0.2
"""Minimum silence before a connection counts as cut, in seconds. A lost packet is not sent again
sooner (Linux's minimum retransmission timeout), and a request may have a timeout shorter than a
round trip. After less silence only the late request fails, because the other requests on the
connection have time left."""


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


class SocketConnection(asyncio.Protocol):
    """One connection; all its times are on the loop's clock."""

    _special_reply: type | None = None
    """Class of the replies that go to `_take` instead of the next request in the queue."""

    def __init__(self, parser: Codec, *, where: str) -> None:
        self.where = where
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._parser = parser
        self._outbox: list[bytes] = []
        # Three columns, with an entry for each request that was sent or will be sent in this turn
        # of the loop: the receiver of the reply, the deadline and, once the request was sent, the
        # time of sending. With an object for each request, a thousand tasks would mean a thousand
        # more objects for the garbage collector to visit.
        self._waiting: deque[ReplyTarget] = deque()
        self._deadlines: deque[float] = deque()
        self._sent_at: deque[float] = deque()
        self._received_at = 0.0
        self._timer = SharedTimer(self._look)
        self._transport: asyncio.Transport

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
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(request)
        self._waiting.append(reply)
        self._deadlines.append(deadline)
        self._timer.at(deadline)

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
            self._transport.write(b"".join(self._outbox))
        self._outbox.clear()

    def data_received(self, data: bytes) -> None:
        """Pass the replies to the requests that wait for them."""
        self._received_at = self._loop.time()
        parser, peculiar = self._parser, self._special_reply
        waiting, deadlines, sent_at = self._waiting, self._deadlines, self._sent_at
        try:
            parser.feed(data)
            while (reply := parser.next()) is not NEED_MORE:
                if reply.__class__ is peculiar or not sent_at:
                    self._take(reply)
                else:
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
            self._lose(ProtocolError(repr(reply)[:40]))
            return
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
        self._transport.abort()
        self._timer.cancel()
        for number, one in enumerate(self._waiting):
            if not one.done():
                # An unreadable reply belongs to the first request; the outcome of the other
                # requests is unknown.
                is_misread = number == 0 and bool(self._sent_at) and _is_unreadable(error)
                one.set_exception(self._misread(error) if is_misread else self._unanswered(error))
        for column in (self._waiting, self._deadlines, self._sent_at, self._outbox):
            column.clear()

    def _misread(self, error: BaseException) -> LockError:
        found = misbehaved(*error.args[:1], where=self.where)
        found.__cause__ = error
        return found

    def _unanswered(self, error: BaseException) -> LockError:
        return unanswered(error, where=self.where)

    def _look(self) -> None:
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
            if deadline <= now and sent_at >= self._received_at
        )
        silent_since = next(unheard, None)
        if silent_since is not None:
            if now >= silent_since + SILENCE_SECONDS:
                # No byte has come since the request was sent, so the path is cut, and stays cut for
                # as long as the kernel repeats its packets. A new connection may find another path.
                self._lose(TimeoutError("no answer in time"))
                return
            moments.append(silent_since + SILENCE_SECONDS)
        if moments:
            self._timer.at(min(moments))

    def close(self) -> None:
        """Close the connection."""
        self._lose(ConnectionError("closed"))

    def abandon_connection(self) -> None:
        """Abandon the connection in a forked child, because the parent still uses it."""
        fork.abandon(self)


def _is_unreadable(error: BaseException) -> bool:
    return bool(error.args) and isinstance(error, (ProtocolError, *UNREADABLE))


ConnectionT = TypeVar("ConnectionT", bound=SocketConnection)


class SocketTransport(Generic[ConnectionT]):
    """Connects to one server; a store defines how to connect and what a failed attempt raises."""

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.where = where
        self._clock = clock
        self._has_answered = False
        """Whether a connection was ever made, which shows that the address is right."""
        self._connection: ConnectionT | None = None
        self._connecting = AsyncSingleFlight[ConnectionT](clock)

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

    def _loop_time(self, deadline: float) -> float:
        return asyncio.get_running_loop().time() + deadline - self._clock.now()

    async def _connected(self, deadline: float) -> ConnectionT:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        if deadline <= self._clock.now():
            raise BackendUnavailable(f"{self.where}: there was no time left to connect")
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

    async def _connect_for_all(self, deadline: float) -> ConnectionT:
        self._connection = connection = await self._connect(deadline)
        self._has_answered = True
        return connection

    async def _connect(self, deadline: float) -> ConnectionT:
        """Return a new connection, or raise the error of `_unreachable`."""
        raise NotImplementedError

    def _unreachable(self, error: BaseException) -> LockError:
        """Return the error for a connection that could not be made."""
        raise NotImplementedError

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
            self._connection.close()
            self._connection = None
            await asyncio.sleep(0)  # the transport closes its socket in the loop's next turn

    def after_fork_in_child(self) -> None:
        """Abandon the parent's connection."""
        if self._connection is not None:
            self._connection.abandon_connection()
        self._connection = None
        self._connecting.after_fork_in_child()
