"""Redis transport and subscription, for threads."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from lockfast.backends.network.codec import NEED_MORE, UNREADABLE, ProtocolError
from lockfast.backends.network.connection_threads import SocketConnection, SocketTransport
from lockfast.backends.redis import cluster_map, errors
from lockfast.backends.redis.handshake import (
    checked_credentials,
    handshake,
    provider_errors,
)
from lockfast.backends.redis.resp import ErrorReply, Push, Reply, RespCodec, RespError, packed
from lockfast.backends.waiting.listener_threads import Listener

if TYPE_CHECKING:
    import socket
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


# The threads' subscription: a connection of its own, read by one thread at a time.


class RedisSubscription(Listener["RedisConnection"]):
    """Listens to one channel on a connection of its own."""

    _broken_by = (OSError, ProtocolError, *UNREADABLE)

    def __init__(
        self, connection: RedisConnection, deliver: Callable[[bytes], None], *, clock: Clock
    ) -> None:
        super().__init__(connection, clock=clock)
        self.generation: int = connection.generation
        self._deliver = deliver

    def _has_more(self) -> bool:
        return self._connection.has_buffered()

    def _read(self) -> None:
        # Read once, and deliver every complete message that has arrived.
        connection = self._connection
        connection.take_in()
        while (push := connection.buffered()) is not NEED_MORE:
            if not isinstance(push, Push):
                self._answered(push)
            elif push.items[0] == b"message":
                self._deliver(push.items[2])

    def _answered(self, reply: Reply) -> None:
        """Ignore a reply, because this subscription sends no requests."""

    def shut(self) -> None:
        """Shut the connection down, so that `listen` finds it broken."""
        self._connection.shut()


class ClusterSubscription(RedisSubscription):
    """Listens to one channel, and notices when the node falls silent or leaves the cluster.

    The subscription has to check, because no other request may go to this node: it may serve none
    of our names.
    """

    def __init__(
        self, connection: RedisConnection, deliver: Callable[[bytes], None], *, clock: Clock
    ) -> None:
        super().__init__(connection, deliver, clock=clock)
        self._received_at = clock.now()
        self._asked_at = self._received_at
        self._check_request = b""
        self._is_cut_off = False

    def asking(self, channel: bytes) -> ClusterSubscription:
        """Set the request that checks the node now and then; return this subscription."""
        self._check_request = cluster_map.listen_check(channel)
        return self

    def listen(self, *, until: float) -> bool:
        """Deliver messages; return false once the node is gone or cut off.

        Returns at `until` at the latest, or after an `interrupt`. If a waiting thread reads the
        reply to the check, it interrupts `listen` to report the result.
        """
        now = self._clock.now()
        if self._is_cut_off:
            return False
        if self._asked_at > self._received_at:
            if now - self._asked_at > cluster_map.LISTEN_CHECK_TIMEOUT_SECONDS:
                return False
        elif now - self._received_at >= cluster_map.LISTEN_CHECK_SECONDS:
            self._asked_at = now
            try:
                with self._using:  # a waiting thread may be reading; TLS allows one at a time
                    self._connection.send(
                        self._check_request, deadline=now + cluster_map.LISTEN_CHECK_TIMEOUT_SECONDS
                    )
            except OSError:
                return False
        return super().listen(until=until) and not self._is_cut_off

    def _read(self) -> None:
        super()._read()
        self._received_at = self._clock.now()

    def _answered(self, reply: Reply) -> None:
        self._is_cut_off = cluster_map.says_cluster_down(reply)
        if self._is_cut_off:
            self.interrupt()


# The threads' transport: blocking calls on the caller's thread; see also `connection_aio`.


class RedisConnection(SocketConnection):
    """One connection, used by one thread at a time."""

    __slots__ = ()

    _unsolicited = Push

    def __init__(self, sock: socket.socket, clock: Clock, generation: int) -> None:
        super().__init__(sock, RespCodec(), clock, generation=generation)


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
        self._subscriptions: weakref.WeakValueDictionary[int, RedisSubscription] = (
            weakref.WeakValueDictionary()
        )

    # -- connecting --------------------------------------------------------------------

    def _new_connection(self, sock: socket.socket, generation: int) -> RedisConnection:
        return RedisConnection(sock, self._clock, generation)

    def _credentials(self) -> Credentials:
        login = self._server.login
        if not login.has_provider:
            return login.fixed
        with provider_errors(where=self.where):
            return checked_credentials(login.provider.get_credentials())

    def _handshake(self) -> Handshake:
        return handshake(
            self._credentials(),
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

    def subscribe(
        self,
        channel: bytes,
        deliver: Callable[[bytes], None],
        *,
        deadline: float,
        kind: type[RedisSubscription] | None = None,
    ) -> RedisSubscription:
        """Return a subscription to the channel, once the server has confirmed it."""
        connection = self.connect(deadline=deadline)
        try:
            connection.send(packed(b"SUBSCRIBE", channel), deadline=deadline)
            self._confirmed(connection.receive_any(deadline=deadline))
            return self._known((kind or RedisSubscription)(connection, deliver, clock=self._clock))
        except OSError as error:
            # The connection failed, or no descriptors are left for the self-pipes.
            connection.close()
            raise self._unreachable(error) from error
        except RespError as error:
            connection.close()
            raise self._unanswered(error) from error
        except BaseException:
            connection.close()
            raise

    def _known(self, subscription: RedisSubscription) -> RedisSubscription:
        self._subscriptions[id(subscription)] = subscription
        if subscription.generation != self._idle.generation:
            subscription.shut()  # `leave` was called before this registration
        return subscription

    def _confirmed(self, reply: Reply | Push) -> None:
        if isinstance(reply, ErrorReply):
            raise errors.refused(reply, where=self.where)

    def parts(self, requests: Sequence[bytes]) -> dict[str, list[int]]:
        """Return the indices of the requests for each server; this transport has one server."""
        return {"": list(range(len(requests)))}

    # -- closing -----------------------------------------------------------------------

    def _may_reuse(self) -> bool:
        """Return whether the next request may use an existing connection."""
        return True  # another thread may return a connection at any moment

    def leave(self) -> None:
        """Stop using every existing connection, for requests and for listening."""
        RedisTransport.close(self)
        # Copy the list in one step, because another thread may subscribe meanwhile.
        for one in self._subscriptions.valuerefs():
            if (subscription := one()) is not None:
                subscription.shut()

    def after_fork_in_child(self) -> None:
        """Close our copies of the parent's connections, which does not affect the parent."""
        super().after_fork_in_child()
        # Shutting a subscription down would end it in the parent too.
        self._subscriptions = weakref.WeakValueDictionary()
