"""The wire of the sync flavour: blocking calls on the caller's thread; `aio` is its pair.

redis-py makes each connection, and `backends/wires/threads.py` asks on it.
"""

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

from lockfast.backends.redis import refusals
from lockfast.backends.redis.addresses import host_name_checked
from lockfast.backends.redis.credentials import guarded
from lockfast.backends.redis.resp import NotRedis, Parser, Push, Refusal, Reply, packed
from lockfast.backends.redis.subscription.threads import Subscription
from lockfast.backends.wires.threads import SocketLink, SocketWire
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime.blocking import DeadlineSocket

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from lockfast.runtime.clock import Clock

__all__ = ["Link", "Wire", "client_of_sentinel", "kind_of_connection", "let_go_in_child"]


class Link(SocketLink):
    """One connection, used by one thread at a time."""

    __slots__ = ()

    _unasked = Push

    def __init__(self, sock: socket.socket, clock: Clock, generation: int) -> None:
        super().__init__(sock, Parser(), clock, generation=generation)


def kind_of_connection(*, tls: bool, is_socket: bool) -> type:
    """Return the driver's class."""
    if is_socket:
        return driver.UnixDomainSocketConnection
    return driver.SSLConnection if tls else driver.Connection


def client_of_sentinel(*, clock: Clock, **options: Any) -> Any:  # noqa: ANN401 - the driver's
    """Return a client of the driver's own, which connects when it is asked something."""
    client = Redis(**{**options, "retry": Retry(NoBackoff(), 0), "protocol": 2})
    reads = partial(_Resp2InTime, clock=clock, patience=options["socket_timeout"])
    client.connection_pool.connection_kwargs["parser_class"] = reads
    return client


def let_go_in_child(_clients: object) -> None:
    """Do nothing: such a client closes its copy of the connection, and says nothing there."""


class Wire(SocketWire[Link]):
    """The way to one server."""

    is_sharded = False
    """Whether names live on several servers, so that one request cannot speak of two."""

    def __init__(self, *, kind: type, options: dict[str, Any], clock: Clock, where: str) -> None:
        super().__init__(clock=clock, where=where)
        self._kind = kind
        self._options = guarded(options, where=where)
        self._subscriptions: weakref.WeakValueDictionary[int, Subscription] = (
            weakref.WeakValueDictionary()
        )

    @classmethod
    def from_url(cls, url: str, *, options: dict[str, Any], clock: Clock, where: str) -> Wire:
        """Return the way to the server that the URL names; the driver reads it."""
        found: dict[str, Any] = driver.parse_url(url)  # type: ignore[no-untyped-call]
        kind = found.pop("connection_class", driver.Connection)
        return cls(kind=kind, options={**found, **options}, clock=clock, where=where)

    # -- connecting --------------------------------------------------------------------

    def _unreachable(self, error: BaseException) -> LockError:
        return refusals.unreachable(error, where=self.where, has_answered=self._has_answered)

    def _connect(self, deadline: float) -> Link:
        return self._dial({}, deadline)

    def _dial(self, endpoint: dict[str, Any], deadline: float) -> Link:
        generation = self._idle.generation
        left = deadline - self._clock.now()
        if left <= 0:
            raise BackendUnavailable(f"{self.where}: there was no time left to connect")
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
                    **_in_python(partial(_Resp3InTime, clock=self._clock, deadline=deadline)),
                }
            )
        except OSError as error:
            # It reads its own version from a file, each time: nothing more may be opened.
            raise self._unreachable(error) from error
        self._dials(connection)
        try:
            connection.connect()
            self._greeted(getattr(connection, "handshake_metadata", None))
            link = Link(connection._sock, self._clock, generation)  # noqa: SLF001
            # From here on the socket is ours, and the driver's object an empty shell.
            connection._sock = None  # noqa: SLF001
        except LockError:
            connection.disconnect()
            raise  # told already, in words of our own
        except (RedisError, OSError) as error:
            connection.disconnect()
            raise self._unreachable(error) from error
        except (AttributeError, TypeError, ValueError, RecursionError) as error:
            # What the driver makes of bytes that are not the protocol's.
            connection.disconnect()
            raise refusals.not_redis(where=self.where) from error
        except BaseException:  # an interrupt: nobody will use it
            connection.disconnect()
            raise
        self._has_answered = True
        return link

    def _dials(self, connection: Any) -> None:  # noqa: ANN401 - the driver's
        """Know what is about to be connected, for those who may have to end it."""

    def _greeted(self, answer: object) -> None:
        """Take what the server said of itself, or raise: then it is not connected to."""
        refusals.check_mode(answer, where=self.where)

    # -- listening ---------------------------------------------------------------------

    def subscribe(
        self,
        channel: bytes,
        hear: Callable[[bytes], None],
        *,
        deadline: float,
        kind: type[Subscription] | None = None,
    ) -> Subscription:
        """Return a subscription to the channel, once the server has confirmed it."""
        link = self._connect(deadline)
        try:
            link.send(packed(b"SUBSCRIBE", channel), deadline=deadline)
            self._confirmed(link.receive_any(deadline=deadline))
            return self._known((kind or Subscription)(link, hear, clock=self._clock))
        except OSError as error:
            # Of the connection, or no descriptors are left for what a subscription needs besides.
            link.close()
            raise self._unreachable(error) from error
        except NotRedis as error:
            link.close()
            raise self._unanswered(error) from error
        except BaseException:
            link.close()
            raise

    def _known(self, subscription: Subscription) -> Subscription:
        self._subscriptions[id(subscription)] = subscription
        if subscription.generation != self._idle.generation:
            subscription.shut()  # its server was left before it was known here
        return subscription

    def _confirmed(self, reply: Reply | Push) -> None:
        if isinstance(reply, Refusal):
            raise refusals.refused(reply, where=self.where)

    def parts(self, requests: Sequence[bytes]) -> dict[str, list[int]]:
        """Return the numbers of the requests that go to each server: here all to one."""
        return {"": list(range(len(requests)))}

    # -- closing -----------------------------------------------------------------------

    def _may_reuse(self) -> bool:
        """Whether the next request may go out on a connection that was made before."""
        return True  # another thread may put one back at any moment

    def leave(self) -> None:
        """Let no connection that was made before be used again, nor listened to."""
        Wire.close(self)
        # In one step: another thread may subscribe meanwhile.
        for one in self._subscriptions.valuerefs():
            if (subscription := one()) is not None:
                subscription.shut()


class _InTime:
    """Lets a parser of the driver read until a deadline, or each reply for so long.

    The socket is not ours yet, and what the driver does with it has to end in time too.
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
        """Read through a socket that looks at the clock."""
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
    """As Sentinels are read."""


class _Resp3InTime(_InTime, _RESP3Parser):
    """As the beginning of every other connection is read."""


def _in_python(parser: Callable[..., object]) -> dict[str, Any]:
    """Return the options that keep the driver from packing and parsing by hiredis.

    That is C, and an exception which a signal raises in the middle of it has ended the
    interpreter. For the few commands of a connection's beginning it gains nothing.
    """
    encoder = Encoder("utf-8", "strict", decode_responses=False)  # type: ignore[no-untyped-call]
    packer = driver.PythonRespSerializer(6000, encoder.encode)
    return {"parser_class": parser, "command_packer": packer}
