"""Redis transport and subscription, for threads."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis import connection as driver
from redis._parsers import Encoder, _RESP2Parser, _RESP3Parser
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from lockfast.backends.network.codec import NEED_MORE
from lockfast.backends.network.connection_threads import (
    DeadlineSocket,
    SocketConnection,
    SocketTransport,
)
from lockfast.backends.redis import cluster_map, errors
from lockfast.backends.redis.address import host_name_checked
from lockfast.backends.redis.handshake import guarded_credentials
from lockfast.backends.redis.resp import ErrorReply, Push, Reply, RespCodec, RespError, packed
from lockfast.backends.waiting.listener_threads import Listener
from lockfast.errors import BackendUnavailable, LockError

if TYPE_CHECKING:
    import socket
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


# The threads' subscription: a connection of its own, read by one thread at a time.


class RedisSubscription(Listener["RedisConnection"]):
    """Listens to one channel on a connection of its own."""

    _broken_by = (OSError, RespError)

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

        Returns at `until` at the latest, or after a kick. If a waiting thread reads the reply to
        the check, it interrupts `listen` to report the result.
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
            self.kick()


# The threads' transport: blocking calls on the caller's thread; see also `connection_aio`.
#
# redis-py makes each connection, and `backends/network/connection_threads.py` sends requests on it.


class RedisConnection(SocketConnection):
    """One connection, used by one thread at a time."""

    __slots__ = ()

    _unsolicited = Push

    def __init__(self, sock: socket.socket, clock: Clock, generation: int) -> None:
        super().__init__(sock, RespCodec(), clock, generation=generation)


def driver_connection_class(*, tls: bool, is_socket: bool) -> type:
    """Return the driver's connection class."""
    if is_socket:
        return driver.UnixDomainSocketConnection
    return driver.SSLConnection if tls else driver.Connection


def sentinel_client(*, clock: Clock, **options: Any) -> Any:  # noqa: ANN401 - the driver's
    """Return a client from the driver, which connects on its first request."""
    client = Redis(**{**options, "retry": Retry(NoBackoff(), 0), "protocol": 2})
    reads = partial(_Resp2InTime, clock=clock, patience=options["socket_timeout"])
    client.connection_pool.connection_kwargs["parser_class"] = reads
    return client


def abandon_in_child(_clients: object) -> None:
    """Do nothing, because the child's clients close only their own copies of the connections."""


class RedisTransport(SocketTransport[RedisConnection]):
    """The transport to one server."""

    is_sharded = False
    """Whether names are on several servers, so that one request cannot cover two names."""

    def __init__(self, *, kind: type, options: dict[str, Any], clock: Clock, where: str) -> None:
        super().__init__(clock=clock, where=where)
        self._kind = kind
        self._options = guarded_credentials(options, where=where)
        self._subscriptions: weakref.WeakValueDictionary[int, RedisSubscription] = (
            weakref.WeakValueDictionary()
        )

    @classmethod
    def from_url(
        cls, url: str, *, options: dict[str, Any], clock: Clock, where: str
    ) -> RedisTransport:
        """Return the transport to the server in the URL, which the driver parses."""
        found: dict[str, Any] = driver.parse_url(url)  # type: ignore[no-untyped-call]
        kind = found.pop("connection_class", driver.Connection)
        return cls(kind=kind, options={**found, **options}, clock=clock, where=where)

    # -- connecting --------------------------------------------------------------------

    def _unreachable(self, error: BaseException) -> LockError:
        return errors.unreachable(error, where=self.where, has_answered=self._has_answered)

    def _connect(self, deadline: float) -> RedisConnection:
        return self._dial({}, deadline)

    def _dial(self, endpoint: dict[str, Any], deadline: float) -> RedisConnection:
        generation = self._idle.generation
        left = deadline - self._clock.now()
        if left <= 0:
            raise BackendUnavailable(f"{self.where}: there was no time left to connect")
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
                    **_in_python(partial(_Resp3InTime, clock=self._clock, deadline=deadline)),
                }
            )
        except OSError as error:
            # The driver reads its version from a file each time, and no descriptor may be left for
            # that.
            raise self._unreachable(error) from error
        self._register_dial(driver_connection)
        try:
            driver_connection.connect()
            self._check_handshake(getattr(driver_connection, "handshake_metadata", None))
            connection = RedisConnection(driver_connection._sock, self._clock, generation)  # noqa: SLF001
            # From here on the socket is ours, and the driver's object no longer refers to it.
            driver_connection._sock = None  # noqa: SLF001
        except LockError:
            driver_connection.disconnect()
            raise  # already an error of ours
        except (RedisError, OSError) as error:
            driver_connection.disconnect()
            raise self._unreachable(error) from error
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            # The driver raises these for bytes that are not the Redis protocol.
            driver_connection.disconnect()
            raise errors.not_redis(where=self.where) from error
        except BaseException:  # interrupted, so nothing will use the connection
            driver_connection.disconnect()
            raise
        self._has_answered = True
        return connection

    def _register_dial(self, connection: Any) -> None:  # noqa: ANN401 - the driver's
        """Take note of a connection before it connects; a subclass may have to end it early."""

    def _check_handshake(self, answer: object) -> None:
        """Check the server's reply to the handshake; raise to refuse the connection."""
        errors.check_mode(answer, where=self.where)

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
        connection = self._connect(deadline)
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


class _InTime:
    """Makes a driver parser stop at a deadline, or limits the time for each reply.

    The driver still reads the socket itself at that point, and that has to end in time too.
    """

    def __init__(
        self, socket_read_size: int, *, clock: Clock, deadline: float = 0.0, patience: float = 0.0
    ) -> None:
        super().__init__(socket_read_size)  # type: ignore[call-arg]  # the parser's
        self._clock = clock
        self._deadline = deadline
        self._patience = patience
        self._buffer: Any

    def on_connect(self, connection: Any) -> None:  # noqa: ANN401 - the driver's
        """Read through a socket that checks the deadline."""
        super().on_connect(connection)  # type: ignore[misc]
        buffer = self._buffer
        buffer._sock = DeadlineSocket(  # noqa: SLF001
            buffer._sock,  # noqa: SLF001
            self._clock,
            deadline=self._deadline,
        )

    def read_response(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as above
        """Return the next reply."""
        if self._patience and self._buffer is not None:
            self._buffer._sock.deadline = self._clock.now() + self._patience  # noqa: SLF001
        return super().read_response(*arguments, **options)  # type: ignore[misc]


class _Resp2InTime(_InTime, _RESP2Parser):
    """Parser for connections to Sentinels."""


class _Resp3InTime(_InTime, _RESP3Parser):
    """Parser for the handshake of all connections except those to Sentinels."""


def _in_python(parser: Callable[..., object]) -> dict[str, Any]:
    """Return the options that keep the driver from packing and parsing with hiredis.

    hiredis is written in C, and an exception that a signal handler raised inside it has crashed the
    interpreter. For the few commands of a handshake, hiredis gains nothing.
    """
    encoder = Encoder("utf-8", "strict", decode_responses=False)  # type: ignore[no-untyped-call]
    packer = driver.PythonRespSerializer(6000, encoder.encode)
    return {"parser_class": parser, "command_packer": packer}
