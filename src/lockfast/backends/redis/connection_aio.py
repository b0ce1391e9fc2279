"""Redis transport and subscription, for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from redis._parsers import _AsyncRESP3Parser
from redis.asyncio import Redis
from redis.asyncio import connection as driver
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from lockfast.backends.network.connection_aio import SocketConnection, SocketTransport
from lockfast.backends.redis import cluster_map, errors
from lockfast.backends.redis.address import host_name_checked
from lockfast.backends.redis.handshake import guarded_credentials
from lockfast.backends.redis.resp import ErrorReply, Push, Reply, RespCodec, packed
from lockfast.backends.waiting.listener_aio import Listener
from lockfast.errors import LockError
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.runtime.clock import Clock

__all__ = [
    "ClusterSubscription",
    "RedisConnection",
    "RedisSubscription",
    "RedisTransport",
    "abandon_in_child",
    "driver_connection_class",
    "sentinel_client",
]


# The asyncio subscription shares the transport's connection, which the event loop reads.


class RedisSubscription(Listener):
    """Listens to one channel on the connection that all requests share."""

    def __init__(self, connection: RedisConnection, channel: bytes, *, clock: Clock) -> None:
        super().__init__(connection.lost, clock=clock)
        self._connection = connection
        self._channel = channel

    async def close(self) -> None:
        """Stop listening."""
        self._connection.unsubscribe(self._channel)


class ClusterSubscription(RedisSubscription):
    """Listens to one channel, and notices when the node falls silent or leaves the cluster.

    The subscription has to check, because no other request may go to this node: it may serve none
    of our names.
    """

    def __init__(self, connection: RedisConnection, channel: bytes, *, clock: Clock) -> None:
        super().__init__(connection, channel, clock=clock)
        self._asked_at = -cluster_map.LISTEN_CHECK_SECONDS
        self._check_request = b""
        self._is_cut_off = False

    def asking(self, channel: bytes) -> ClusterSubscription:
        """Set the request that checks the node now and then; return this subscription."""
        self._check_request = cluster_map.listen_check(channel)
        return self

    async def listen(self, *, until: float) -> bool:
        """Return at `until`, or when interrupted; false once the node is gone or cut off."""
        now = asyncio.get_running_loop().time()
        if self._is_cut_off:
            return False
        if self._connection.is_open and now - self._asked_at >= cluster_map.LISTEN_CHECK_SECONDS:
            self._asked_at = now
            # If no reply to the check comes in time, `send` gives up the connection.
            reply = self._connection.send(
                self._check_request, deadline=now + cluster_map.LISTEN_CHECK_TIMEOUT_SECONDS
            )
            reply.add_done_callback(self._answered)
        return await super().listen(until=until) and not self._is_cut_off

    def _answered(self, reply: asyncio.Future[Reply]) -> None:
        # A lost reply needs no handling here, because the connection reports its own loss.
        if not reply.cancelled() and reply.exception() is None:
            self._is_cut_off = cluster_map.says_cluster_down(reply.result())
            if self._is_cut_off:
                self.kick()


# The asyncio transport: one multiplexed connection; `connection_threads` is its counterpart.
#
# redis-py makes the connection, and `backends/network/connection_aio.py` sends requests on it.


class RedisConnection(SocketConnection):
    """One connection, which also receives published messages."""

    _special_reply = Push

    def __init__(self, *, where: str) -> None:
        super().__init__(RespCodec(), where=where)
        self.listeners: dict[bytes, Callable[[bytes], None]] = {}
        self._keep: object = None

    def take_over(self, transport: asyncio.Transport, keep: object) -> None:
        """Read and write the connection from now on, and protect `keep` from garbage collection."""
        self._transport = transport
        self._keep = keep
        transport.set_protocol(self)

    def unsubscribe(self, channel: bytes) -> None:
        """Stop listening to a channel; the server's confirmation, a push, is ignored."""
        if self.listeners.pop(channel, None) is not None and self.is_open:
            self.send_unanswered(packed(b"UNSUBSCRIBE", channel))

    def _take(self, reply: Reply | Push) -> None:
        if isinstance(reply, Push):
            self._on_push(reply.items)
        else:
            self._answer(reply)

    def _on_push(self, items: list[Any]) -> None:
        kind, channel = items[0], items[1]
        if kind == b"message":
            deliver = self.listeners.get(channel)
            if deliver is not None:
                deliver(items[2])
        elif kind == b"subscribe":
            # The server refuses SUBSCRIBE with a reply but confirms it with a push, so the push
            # takes the place of the reply. Nothing waits for the confirmation of an UNSUBSCRIBE.
            self._answer(None)


def driver_connection_class(*, tls: bool, is_socket: bool) -> type:
    """Return the driver's connection class."""
    if is_socket:
        return driver.UnixDomainSocketConnection
    return driver.SSLConnection if tls else driver.Connection


def sentinel_client(*, clock: Clock, **options: Any) -> Any:  # noqa: ANN401 - the driver's
    """Return a client from the driver, which connects on its first request."""
    del clock  # the loop keeps the time here
    return Redis(**{**options, "retry": Retry(NoBackoff(), 0), "protocol": 2})


def abandon_in_child(clients: object) -> None:
    """Abandon these clients, because the parent process still uses them."""
    fork.abandon(clients)


class RedisTransport(SocketTransport[RedisConnection]):
    """The transport to one server."""

    is_sharded = False
    """Whether names are on several servers, so that one request cannot cover two names."""

    def __init__(self, *, kind: type, options: dict[str, Any], clock: Clock, where: str) -> None:
        super().__init__(clock=clock, where=where)
        self._kind = kind
        self._options = guarded_credentials(options, where=where)

    @classmethod
    def from_url(
        cls, url: str, *, options: dict[str, Any], clock: Clock, where: str
    ) -> RedisTransport:
        """Return the transport to the server in the URL, which the driver parses."""
        found = driver.parse_url(url)
        kind = found.pop("connection_class", driver.Connection)
        return cls(kind=kind, options={**found, **options}, clock=clock, where=where)

    # -- connecting --------------------------------------------------------------------

    def _unreachable(self, error: BaseException) -> LockError:
        return errors.unreachable(error, where=self.where, has_answered=self._has_answered)

    async def _connect(self, deadline: float) -> RedisConnection:
        return await self._dial({}, deadline)

    async def _dial(self, endpoint: dict[str, Any], deadline: float) -> RedisConnection:
        left = max(0.001, deadline - self._clock.now())
        try:
            driver_connection = self._kind(
                **{
                    **host_name_checked(self._kind),
                    **self._options,
                    **endpoint,
                    "socket_timeout": left,
                    "socket_connect_timeout": left,
                    "retry": Retry(NoBackoff(), 0),
                    "protocol": 3,
                    "parser_class": _AsyncRESP3Parser,  # pure Python, as in `connection_threads`
                    "redis_connect_func": self._driver_handshake,
                }
            )
        except OSError as error:
            # The driver reads its version from a file each time, and no descriptor may be left for
            # that.
            raise self._unreachable(error) from error
        try:
            await driver_connection.connect()
        except LockError:
            await driver_connection.disconnect(nowait=True)
            raise  # already an error of ours
        except (RedisError, OSError) as error:
            await driver_connection.disconnect(nowait=True)
            raise self._unreachable(error) from error
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            # The driver raises these for bytes that are not the Redis protocol.
            await driver_connection.disconnect(nowait=True)
            raise errors.not_redis(where=self.where) from error
        except BaseException:
            # This attempt was cancelled, so nothing will use the connection.
            await driver_connection.disconnect(nowait=True)
            raise
        # Take the transport out of the driver's object, so that only our connection uses it.
        streams = driver_connection._reader, driver_connection._writer  # noqa: SLF001
        driver_connection._reader = driver_connection._writer = None  # noqa: SLF001
        connection = RedisConnection(where=self.where)
        connection.take_over(streams[1].transport, streams)
        return connection

    async def _driver_handshake(self, connection: Any) -> None:  # noqa: ANN401 - the driver's
        transport = connection._writer.transport  # noqa: SLF001
        try:
            await connection.on_connect()
            # Send HELLO again, because the driver does not keep the reply.
            await connection.send_command("HELLO", 3)
            self._check_handshake(await connection.read_response())
        except BaseException:
            # Abort at once. The driver would forget the connection before it is closed, and a TLS
            # connection closes only after an exchange with the server, for which an ending event
            # loop has no time.
            transport.abort()
            raise

    def _check_handshake(self, answer: object) -> None:
        """Check the server's reply to the handshake; raise to refuse the connection."""
        errors.check_mode(answer, where=self.where)

    # -- listening ---------------------------------------------------------------------

    async def subscribe(
        self,
        channel: bytes,
        deliver: Callable[[bytes], None],
        *,
        deadline: float,
        kind: type[RedisSubscription] | None = None,
    ) -> RedisSubscription:
        """Return a subscription to the channel, once the server has confirmed it."""
        connection = await self._connected(deadline)
        connection.listeners[channel] = deliver
        request = packed(b"SUBSCRIBE", channel)
        try:
            reply = await connection.send(request, deadline=self._loop_time(deadline))
        except LockError:
            connection.unsubscribe(
                channel
            )  # the SUBSCRIBE may still take effect, without a listener
            raise
        if isinstance(reply, ErrorReply):
            del connection.listeners[channel]
            raise errors.refused(reply, where=self.where)
        return (kind or RedisSubscription)(connection, channel, clock=self._clock)

    def parts(self, requests: Sequence[bytes]) -> dict[str, list[int]]:
        """Return the indices of the requests for each server; this transport has one server."""
        return {"": list(range(len(requests)))}

    # -- closing -----------------------------------------------------------------------

    def _may_reuse(self) -> bool:
        """Return whether the next request may use an existing connection."""
        return self._connection is not None and self._connection.is_open
