"""The wire of the asyncio flavour: one multiplexed connection; `threads` is its pair.

The commands of all tasks that ask in one turn of the loop go out in one write; replies are
matched in order. A request that was cancelled or timed out keeps its place in the queue,
and its reply is read and dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from redis._parsers import _AsyncRESP3Parser
from redis.asyncio import Redis
from redis.asyncio import connection as driver
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from holdfast._async.single_flight import AsyncSingleFlight
from holdfast.backends.redis import refusals
from holdfast.backends.redis.addresses import host_name_checked
from holdfast.backends.redis.credentials import guarded
from holdfast.backends.redis.resp import MORE, NotRedis, Parser, Push, Refusal, Reply, packed
from holdfast.backends.redis.subscription.aio import Subscription
from holdfast.errors import BackendUnavailable, LockError, OutcomeUnknown
from holdfast.runtime import forking
from holdfast.runtime.timing import OneTimer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.runtime.clock import Clock

__all__ = ["Link", "Wire", "client_of_sentinel", "kind_of_connection", "let_go_in_child"]


SILENCE = 0.2
"""A link that was silent for less is not taken for cut: no packet that got lost is sent again
sooner (Linux's least retransmission timeout), and a request may be given less time than a
round trip takes. Then only that request fails; the others on the link have time left."""


class Waiting(Protocol):
    """Who gets a reply: a future, or what is one to the link and gets the replies of many."""

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    def set_result(self, reply: Reply, /) -> None:
        """Take the reply."""
        ...

    def set_exception(self, error: LockError, /) -> None:
        """Take it that none comes."""
        ...


class Pending:
    """A request that was sent, or will be in this turn of the loop."""

    __slots__ = ("deadline", "reply", "sent_at")

    def __init__(self, reply: Waiting, deadline: float) -> None:
        self.reply = reply
        self.deadline = deadline
        self.sent_at = 0.0


class Link(asyncio.Protocol):
    """One connection; times are the loop's."""

    def __init__(self, *, where: str) -> None:
        self.where = where
        self.listeners: dict[bytes, Callable[[bytes], None]] = {}
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._parser = Parser()
        self._outbox: list[bytes] = []
        self._pending: deque[Pending] = deque()
        self._heard_at = 0.0
        self._timer = OneTimer(self._look)
        self._transport: asyncio.Transport
        self._keep: object = None

    def take_over(self, transport: asyncio.Transport, keep: object) -> None:
        """Read and write the connection from now on; `keep` must not be collected before."""
        self._transport = transport
        self._keep = keep
        transport.set_protocol(self)

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return not self.lost.done()

    @property
    def owed(self) -> int:
        """How many replies are still to come, also those that nobody waits for any more."""
        return len(self._pending)

    def send(self, request: bytes, *, deadline: float) -> asyncio.Future[Reply]:
        """Return the future of the reply; it fails with OutcomeUnknown."""
        reply: asyncio.Future[Reply] = self._loop.create_future()
        self.send_for(reply, request, deadline=deadline)
        return reply

    def send_for(self, reply: Waiting, request: bytes, *, deadline: float) -> None:
        """Send a request whose reply is given to that one."""
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(request)
        self._pending.append(Pending(reply, deadline))
        self._timer.at(deadline)

    def unsubscribe(self, channel: bytes) -> None:
        """Hear no more of a channel; the server confirms it by a push."""
        if self.listeners.pop(channel, None) is not None and self.is_open:
            if not self._outbox:
                self._loop.call_soon(self._flush)
            self._outbox.append(packed(b"UNSUBSCRIBE", channel))

    def _flush(self) -> None:
        if self._outbox and self.is_open:
            now = self._loop.time()
            for one in reversed(self._pending):
                if one.sent_at:
                    break
                one.sent_at = now
            self._transport.write(b"".join(self._outbox))
        self._outbox.clear()

    def data_received(self, data: bytes) -> None:
        """Give the replies to those who wait for them."""
        self._heard_at = self._loop.time()
        parser = self._parser
        parser.feed(data)
        try:
            while (reply := parser.next()) is not MORE:
                if isinstance(reply, Push):
                    self._hear(reply.items)
                else:
                    self._answer(reply)
        except (NotRedis, ValueError) as error:
            self._lose(error)

    def _answer(self, reply: Reply) -> None:
        if not self._pending:
            self._lose(NotRedis(repr(reply)[:40]))
            return
        pending = self._pending.popleft()
        if not pending.reply.done():
            pending.reply.set_result(reply)

    def _hear(self, items: list[Any]) -> None:
        kind, channel = items[0], items[1]
        if kind == b"message":
            hear = self.listeners.get(channel)
            if hear is not None:
                hear(items[2])
        elif kind == b"subscribe":
            # The one command that is refused by a reply and confirmed by a push, which
            # comes in the reply's turn. Nobody waits for an unsubscription's.
            self._answer(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait."""
        self._lose(exc or ConnectionError("the server closed the connection"))

    def _lose(self, error: BaseException) -> None:
        if self.lost.done():
            return
        self.lost.set_result(None)
        self._transport.abort()
        self._timer.cancel()
        for pending in self._pending:
            if not pending.reply.done():
                pending.reply.set_exception(self._unanswered(error))
        self._pending.clear()
        self._outbox.clear()

    def _unanswered(self, error: BaseException) -> LockError:
        unknown = OutcomeUnknown(f"{self.where} did not answer: {error}")
        unknown.__cause__ = error
        return unknown

    def _look(self) -> None:
        now = self._loop.time()
        late = [one for one in self._pending if one.deadline <= now]
        waited_for = [one for one in late if not one.reply.done()]
        for one in waited_for:
            one.reply.set_exception(self._unanswered(TimeoutError("no answer in time")))
        moments = [one.deadline for one in self._pending if one.deadline > now]
        # Those who are late keep their places, so the first of them tells how long it lasts.
        unheard = (one.sent_at for one in late if one.sent_at and one.sent_at >= self._heard_at)
        silent_since = next(unheard, None)
        if silent_since is not None:
            if now >= silent_since + SILENCE:
                # Not a byte since it was sent: the way is cut, and would stay so for as long
                # as the kernel repeats its packets. A new connection may find another way.
                self._lose(TimeoutError("no answer in time"))
                return
            moments.append(silent_since + SILENCE)
        if moments:
            self._timer.at(min(moments))

    def close(self) -> None:
        """Let go of the connection."""
        self._lose(ConnectionError("closed"))

    def leak(self) -> None:
        """Leave the connection to the parent process, which still uses it."""
        forking.leak(self)


def kind_of_connection(*, tls: bool, is_socket: bool) -> type:
    """Return the driver's class."""
    if is_socket:
        return driver.UnixDomainSocketConnection
    return driver.SSLConnection if tls else driver.Connection


def client_of_sentinel(**options: Any) -> Any:  # noqa: ANN401 - the driver's
    """Return a client of the driver's own, which connects when it is asked something."""
    return Redis(**{**options, "retry": Retry(NoBackoff(), 0), "protocol": 2})


def let_go_in_child(clients: object) -> None:
    """Leave such clients to the parent process, which still uses them."""
    forking.leak(clients)


class Wire:
    """The way to one server."""

    is_sharded = False
    """Whether names live on several servers, so that one request cannot speak of two."""

    def __init__(self, *, kind: type, options: dict[str, Any], clock: Clock, where: str) -> None:
        self.where = where
        self._kind = kind
        self._options = guarded(options, where=where)
        self._clock = clock
        self._link: Link | None = None
        self._connecting = AsyncSingleFlight[Link](clock)

    @classmethod
    def from_url(cls, url: str, *, options: dict[str, Any], clock: Clock, where: str) -> Wire:
        """Return the way to the server that the URL names; the driver reads it."""
        found = driver.parse_url(url)
        kind = found.pop("connection_class", driver.Connection)
        return cls(kind=kind, options={**found, **options}, clock=clock, where=where)

    # -- asking ------------------------------------------------------------------------

    async def ask(self, request: bytes, *, deadline: float) -> Reply:
        """Return the reply to one command, which may be a Refusal.

        Raises BackendUnavailable if nothing was sent, OutcomeUnknown if no reply came.
        """
        link = self._link
        if link is None or link.lost.done():
            link = await self._connected(deadline)
        return await link.send(request, deadline=self._loop_time(deadline))

    async def ask_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the replies to several commands, sent together; an error for each that is lost."""
        link = await self._connected(deadline)
        moment = self._loop_time(deadline)
        replies = [link.send(one, deadline=moment) for one in requests]
        return await asyncio.gather(*replies, return_exceptions=True)

    def _loop_time(self, deadline: float) -> float:
        return asyncio.get_running_loop().time() + deadline - self._clock.now()

    async def _connected(self, deadline: float) -> Link:
        if self._link is not None and self._link.is_open:
            return self._link
        if deadline <= self._clock.now():
            raise BackendUnavailable(f"{self.where}: there was no time left to connect")
        # All who ask meanwhile wait for the same attempt; none of them can cancel it.
        connecting = await self._connecting.fly(
            partial(self._connect_for_all, deadline), deadline=deadline
        )
        if connecting.is_known:
            return connecting.result()
        if connecting.is_cut_off:
            raise BackendUnavailable(f"{self.where}: closed before there was a connection")
        raise refusals.unreachable(TimeoutError("no connection in time"), where=self.where)

    async def _connect_for_all(self, deadline: float) -> Link:
        self._link = link = await self._connect(deadline)
        return link

    async def _connect(self, deadline: float) -> Link:
        return await self._dial({}, deadline)

    async def _dial(self, endpoint: dict[str, Any], deadline: float) -> Link:
        left = max(0.001, deadline - self._clock.now())
        try:
            connection = self._kind(
                **{
                    **host_name_checked(self._kind),
                    **self._options,
                    **endpoint,
                    "socket_timeout": left,
                    "socket_connect_timeout": left,
                    "retry": Retry(NoBackoff(), 0),
                    "protocol": 3,
                    "parser_class": _AsyncRESP3Parser,  # as in `threads`
                }
            )
        except OSError as error:
            # It reads its own version from a file, each time: nothing more may be opened.
            raise refusals.unreachable(error, where=self.where) from error
        try:
            await connection.connect()
            await connection.send_command("HELLO", 3)  # the driver has not kept its answer
            self._greeted(await connection.read_response())
        except LockError:
            await connection.disconnect(nowait=True)
            raise  # told already, in words of our own
        except (RedisError, OSError) as error:
            await connection.disconnect(nowait=True)
            raise refusals.unreachable(error, where=self.where) from error
        except (AttributeError, TypeError, ValueError) as error:
            # What the driver makes of bytes that are not the protocol's.
            await connection.disconnect(nowait=True)
            raise refusals.not_redis(where=self.where) from error
        except BaseException:
            # A cancellation: nobody will use it.
            await connection.disconnect(nowait=True)
            raise
        # From here on the transport is ours, and the driver's object an empty shell.
        streams = connection._reader, connection._writer  # noqa: SLF001
        connection._reader = connection._writer = None  # noqa: SLF001
        link = Link(where=self.where)
        link.take_over(streams[1].transport, streams)
        return link

    def _greeted(self, answer: object) -> None:
        """Take what the server said of itself, or raise: then it is not connected to."""
        refusals.check_mode(answer, where=self.where)

    # -- listening ---------------------------------------------------------------------

    async def subscribe(
        self,
        channel: bytes,
        hear: Callable[[bytes], None],
        *,
        deadline: float,
        kind: type[Subscription] | None = None,
    ) -> Subscription:
        """Return a subscription to the channel, once the server has confirmed it."""
        link = await self._connected(deadline)
        link.listeners[channel] = hear
        request = packed(b"SUBSCRIBE", channel)
        try:
            reply = await link.send(request, deadline=self._loop_time(deadline))
        except LockError:
            link.unsubscribe(channel)  # it may come true, and nobody would hear it
            raise
        if isinstance(reply, Refusal):
            del link.listeners[channel]
            raise refusals.refused(reply, where=self.where)
        return (kind or Subscription)(link, channel, clock=self._clock)

    async def masters(self, *, deadline: float) -> list[Wire]:
        """Return the way to each server that holds some of the names: here to this one."""
        del deadline
        return [self]

    def parts(self, requests: Sequence[bytes]) -> dict[str, list[int]]:
        """Return the numbers of the requests that go to each server: here all to one."""
        return {"": list(range(len(requests)))}

    # -- closing -----------------------------------------------------------------------

    def _may_reuse(self) -> bool:
        """Whether the next request may go out on a connection that was made before."""
        return self._link is not None and self._link.is_open

    def leave(self) -> None:
        """Let no connection that was made before be used again, nor listened to."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._connecting.end()
        if self._link is not None:
            self._link.close()
            self._link = None
            await asyncio.sleep(0)  # the transport closes its socket in the loop's next turn

    def after_fork_in_child(self) -> None:
        """Leave the parent's connection alone."""
        if self._link is not None:
            self._link.leak()
        self._link = None
        self._connecting.after_fork_in_child()
