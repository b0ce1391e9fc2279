"""Redis transport and subscription, for asyncio."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from lockfast.backends.network.connection_aio import SocketConnection, SocketTransport
from lockfast.backends.redis import cluster_map, errors
from lockfast.backends.redis.handshake import (
    checked_credentials,
    handshake,
    provider_errors,
)
from lockfast.backends.redis.resp import ErrorReply, Push, Reply, RespCodec, packed
from lockfast.backends.waiting.listener_aio import Listener
from lockfast.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.network.target import Handshake
    from lockfast.backends.redis.address import ServerSettings
    from lockfast.backends.redis.handshake import Credentials
    from lockfast.runtime.clock import Clock

__all__ = [
    "ClusterSubscription",
    "RedisConnection",
    "RedisSubscription",
    "RedisTransport",
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
                self.interrupt()


# The asyncio transport: one multiplexed connection; `connection_threads` is its counterpart.


class RedisConnection(SocketConnection):
    """One connection, which also receives published messages."""

    _special_reply = Push

    def __init__(self, *, where: str) -> None:
        super().__init__(RespCodec(), where=where)
        self.listeners: dict[bytes, Callable[[bytes], None]] = {}

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


class RedisTransport(SocketTransport[RedisConnection]):
    """The transport to one server."""

    is_sharded = False
    """Whether names are on several servers, so that one request cannot cover two names."""

    def __init__(self, server: ServerSettings, *, clock: Clock) -> None:
        target = server.target
        unreachable = partial(
            errors.unreachable, where=target.where, uses_tls=target.tls is not None
        )
        super().__init__(target, unreachable=unreachable, clock=clock)
        self._server = server

    # -- connecting --------------------------------------------------------------------

    def _new_connection(self) -> RedisConnection:
        return RedisConnection(where=self.where)

    async def _credentials(self) -> Credentials:
        login = self._server.login
        if not login.has_provider:
            return login.fixed
        with provider_errors(where=self.where):
            # Providers for both flavours have a method for each.
            ask = getattr(login.provider, "get_credentials_async", None)
            given = login.provider.get_credentials() if ask is None else await ask()
            return checked_credentials(given)

    async def _handshake(self) -> Handshake:
        return handshake(
            await self._credentials(),
            where=self.where,
            db=self._server.db,
            client_name=self._server.client_name,
            check=self._check_greeting,
            has_provider=self._server.login.has_provider,
        )

    def _check_greeting(self, greeting: dict[Any, Any]) -> None:
        """Raise to refuse a server because of its reply to the handshake."""
        errors.check_mode(greeting, where=self.where)

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
