"""The wire of the asyncio flavour: one multiplexed connection; `threads` is its pair.

redis-py makes the connection, and `backends/wires/aio.py` asks on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from redis._parsers import _AsyncRESP3Parser
from redis.asyncio import Redis
from redis.asyncio import connection as driver
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from lockfast.backends.redis import refusals
from lockfast.backends.redis.addresses import host_name_checked
from lockfast.backends.redis.credentials import guarded
from lockfast.backends.redis.resp import Parser, Push, Refusal, Reply, packed
from lockfast.backends.redis.subscription.aio import Subscription
from lockfast.backends.wires.aio import SocketLink, SocketWire
from lockfast.errors import LockError
from lockfast.runtime import forking

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from lockfast.runtime.clock import Clock

__all__ = ["Link", "Wire", "client_of_sentinel", "kind_of_connection", "let_go_in_child"]


class Link(SocketLink):
    """One connection, which also brings what others publish."""

    _peculiar = Push

    def __init__(self, *, where: str) -> None:
        super().__init__(Parser(), where=where)
        self.listeners: dict[bytes, Callable[[bytes], None]] = {}
        self._keep: object = None

    def take_over(self, transport: asyncio.Transport, keep: object) -> None:
        """Read and write the connection from now on; `keep` must not be collected before."""
        self._transport = transport
        self._keep = keep
        transport.set_protocol(self)

    def unsubscribe(self, channel: bytes) -> None:
        """Hear no more of a channel; the server confirms it by a push."""
        if self.listeners.pop(channel, None) is not None and self.is_open:
            self.send_unanswered(packed(b"UNSUBSCRIBE", channel))

    def _take(self, reply: Reply | Push) -> None:
        if isinstance(reply, Push):
            self._hear(reply.items)
        else:
            self._answer(reply)

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


def kind_of_connection(*, tls: bool, is_socket: bool) -> type:
    """Return the driver's class."""
    if is_socket:
        return driver.UnixDomainSocketConnection
    return driver.SSLConnection if tls else driver.Connection


def client_of_sentinel(*, clock: Clock, **options: Any) -> Any:  # noqa: ANN401 - the driver's
    """Return a client of the driver's own, which connects when it is asked something."""
    del clock  # the loop keeps the time here
    return Redis(**{**options, "retry": Retry(NoBackoff(), 0), "protocol": 2})


def let_go_in_child(clients: object) -> None:
    """Leave such clients to the parent process, which still uses them."""
    forking.leak(clients)


class Wire(SocketWire[Link]):
    """The way to one server."""

    is_sharded = False
    """Whether names live on several servers, so that one request cannot speak of two."""

    def __init__(self, *, kind: type, options: dict[str, Any], clock: Clock, where: str) -> None:
        super().__init__(clock=clock, where=where)
        self._kind = kind
        self._options = guarded(options, where=where)

    @classmethod
    def from_url(cls, url: str, *, options: dict[str, Any], clock: Clock, where: str) -> Wire:
        """Return the way to the server that the URL names; the driver reads it."""
        found = driver.parse_url(url)
        kind = found.pop("connection_class", driver.Connection)
        return cls(kind=kind, options={**found, **options}, clock=clock, where=where)

    # -- connecting --------------------------------------------------------------------

    def _unreachable(self, error: BaseException) -> LockError:
        return refusals.unreachable(error, where=self.where, has_answered=self._has_answered)

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
                    "redis_connect_func": self._introduce,
                }
            )
        except OSError as error:
            # It reads its own version from a file, each time: nothing more may be opened.
            raise self._unreachable(error) from error
        try:
            await connection.connect()
        except LockError:
            await connection.disconnect(nowait=True)
            raise  # told already, in words of our own
        except (RedisError, OSError) as error:
            await connection.disconnect(nowait=True)
            raise self._unreachable(error) from error
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
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

    async def _introduce(self, connection: Any) -> None:  # noqa: ANN401 - the driver's
        transport = connection._writer.transport  # noqa: SLF001
        try:
            await connection.on_connect()
            await connection.send_command("HELLO", 3)  # the driver has not kept its answer
            self._greeted(await connection.read_response())
        except BaseException:
            # At once: the driver forgets a connection before it is closed, and with TLS that takes
            # a goodbye from both sides, for which a loop that ends has no time.
            transport.abort()
            raise

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

    def parts(self, requests: Sequence[bytes]) -> dict[str, list[int]]:
        """Return the numbers of the requests that go to each server: here all to one."""
        return {"": list(range(len(requests)))}

    # -- closing -----------------------------------------------------------------------

    def _may_reuse(self) -> bool:
        """Whether the next request may go out on a connection that was made before."""
        return self._link is not None and self._link.is_open
