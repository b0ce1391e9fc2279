"""The wire of the sync flavour: blocking calls on the caller's thread; `aio` is its pair.

A small pool: each call takes a connection for itself and puts it back, so there are as
many as threads that ever called at once. A call that is not answered in time closes its
connection, whose next reply would belong to somebody who no longer listens.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import weakref
from _socket import socket as KernelSocket  # noqa: N812 - what `socket.socket` is, unless patched
from typing import TYPE_CHECKING, Any

from redis import Redis
from redis import connection as driver
from redis._parsers import Encoder, _RESP3Parser
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from holdfast.backends.redis import refusals
from holdfast.backends.redis.addresses import host_name_checked
from holdfast.backends.redis.credentials import guarded
from holdfast.backends.redis.resp import MORE, NotRedis, Parser, Push, Refusal, Reply, packed
from holdfast.backends.redis.subscription.threads import Subscription
from holdfast.errors import BackendUnavailable, LockError, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.runtime.clock import Clock

__all__ = ["Link", "Wire", "client_of_sentinel", "kind_of_connection", "let_go_in_child"]

JUST_NOW = 0.05
"""A connection that was used so lately is not looked at before it is used again."""

LOOK_FOR = 0.0001
LOOKS = 100
"""For so long, and so often at most, an answer is looked for before it is slept for."""

SLEEPS = 100
"""After an answer that took longer, so many are slept for without looking."""

KEPT = 64
"""As many connections are kept for the next calls."""


class Link:
    """One connection, used by one thread at a time."""

    __slots__ = ("_armed", "_clock", "_parser", "_sleeps", "_sock", "generation", "used_at")

    def __init__(self, sock: socket.socket, clock: Clock, generation: int) -> None:
        self._sock = sock
        # The kernel keeps the time of a plain socket: Python's own timeouts ask it twice
        # before each call. TLS reads in its own way, and gets Python's; and so does gevent,
        # whose sockets never wait in the kernel.
        waits_in_kernel = issubclass(type(sock), KernelSocket)
        is_plain = waits_in_kernel and not isinstance(sock, ssl.SSLSocket)
        self._armed: float | None = 0.0 if is_plain else None
        if self._armed is not None:
            sock.settimeout(None)
        self._clock = clock
        self._parser = Parser()
        self._sleeps = 0
        self.generation = generation
        self.used_at = clock.now()

    def is_sound(self, now: float) -> bool:
        """Whether the server still listens, as far as can be seen without asking it."""
        if now - self.used_at < JUST_NOW:
            return True
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return not poll.poll(0)  # nothing is due, so what came is the end

    def send(self, data: bytes, *, deadline: float) -> None:
        """Send all of it, or raise OSError."""
        self._arm(deadline)
        self._sock.sendall(data)

    def receive(self, *, deadline: float) -> Reply | Push:
        """Return the next reply, or raise OSError."""
        parser = self._parser
        while (reply := parser.next()) is MORE:
            self._arm(deadline)
            data = self._received()
            if not data:
                raise ConnectionError("the server closed the connection")
            parser.feed(data)
        return reply

    def _received(self) -> bytes:
        """Return what comes next, looking for it a while before going to sleep for it.

        A server nearby answers sooner than a sleeping thread is woken, so on an idle machine
        this halves the time of a request. Where an answer takes longer, or others are after
        the processor or the interpreter, it is of no use; so after each time that it was in
        vain, many answers are slept for at once.
        """
        sock, now = self._sock, self._clock.now
        if self._armed is None or self._sleeps:
            self._sleeps -= self._sleeps > 0
            return sock.recv(65536)
        until = now() + LOOK_FOR
        for _ in range(LOOKS):
            try:
                return sock.recv(65536, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if now() > until:
                    break
        self._sleeps = SLEEPS
        return sock.recv(65536)

    def take_in(self) -> None:
        """Take what has come, without waiting for more; raise OSError if it has ended."""
        sock = self._sock
        try:
            if self._armed is None:
                sock.settimeout(0.0)
                data = sock.recv(65536)
            else:
                data = sock.recv(65536, socket.MSG_DONTWAIT)
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        if not data:
            raise ConnectionError("the server closed the connection")
        self._parser.feed(data)

    def buffered(self) -> Reply | Push:
        """Return a reply that is already here, or MORE."""
        return self._parser.next()

    def _arm(self, deadline: float) -> None:
        left = deadline - self._clock.now()
        if left <= 0:
            raise TimeoutError("no answer in time")
        armed = self._armed
        if armed is None:
            self._sock.settimeout(left)
        elif not armed <= left <= armed * 1.1:
            # A little early is near enough, and saves telling the kernel each time.
            self._armed = armed = left * 0.95
            whole = int(armed)
            value = struct.pack("@ll", whole, max(1, int((armed - whole) * 1_000_000)))
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)

    def fileno(self) -> int:
        """Return what can be polled."""
        return self._sock.fileno()

    def has_buffered(self) -> bool:
        """Whether TLS has bytes that a poll would not see."""
        pending = getattr(self._sock, "pending", None)
        return pending is not None and pending() > 0

    def shut(self) -> None:
        """Let whoever reads it see the end; it is still the reader's to close."""
        with contextlib.suppress(OSError):  # it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let go of the socket."""
        self._sock.close()

    def __del__(self) -> None:
        # An interrupt may strike between a link's being taken and its having an owner. Then
        # nobody has it any more, and nobody else would close it.
        sock = getattr(self, "_sock", None)
        if sock is not None:
            sock.close()


def kind_of_connection(*, tls: bool, is_socket: bool) -> type:
    """Return the driver's class."""
    if is_socket:
        return driver.UnixDomainSocketConnection
    return driver.SSLConnection if tls else driver.Connection


def client_of_sentinel(**options: Any) -> Any:  # noqa: ANN401 - the driver's
    """Return a client of the driver's own, which connects when it is asked something."""
    return Redis(**{**options, "retry": Retry(NoBackoff(), 0), "protocol": 2})


def let_go_in_child(_clients: object) -> None:
    """Do nothing: such a client closes its copy of the connection, and says nothing there."""


class Wire:
    """The way to one server."""

    is_sharded = False
    """Whether names live on several servers, so that one request cannot speak of two."""

    def __init__(self, *, kind: type, options: dict[str, Any], clock: Clock, where: str) -> None:
        self.where = where
        self._kind = kind
        self._options = guarded(options, where=where)
        self._clock = clock
        self._idle: list[Link] = []
        self._generation = 0
        self._subscriptions: weakref.WeakValueDictionary[int, Subscription] = (
            weakref.WeakValueDictionary()
        )

    @classmethod
    def from_url(cls, url: str, *, options: dict[str, Any], clock: Clock, where: str) -> Wire:
        """Return the way to the server that the URL names; the driver reads it."""
        found: dict[str, Any] = driver.parse_url(url)  # type: ignore[no-untyped-call]
        kind = found.pop("connection_class", driver.Connection)
        return cls(kind=kind, options={**found, **options}, clock=clock, where=where)

    # -- asking ------------------------------------------------------------------------

    def ask(self, request: bytes, *, deadline: float) -> Reply:
        """Return the reply to one command, which may be a Refusal.

        Raises BackendUnavailable if nothing was sent, OutcomeUnknown if no reply came.
        """
        link = self._take(deadline)
        try:
            link.send(request, deadline=deadline)
            reply = link.receive(deadline=deadline)
        except (OSError, NotRedis) as error:
            link.close()
            raise self._unanswered(error) from error
        except BaseException:
            # A KeyboardInterrupt, say: the reply is still on its way to this connection.
            link.close()
            raise
        self._put_back(link)
        return reply

    def ask_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Reply]:
        """Return the replies to several commands, sent together; an error for each that is lost."""
        link = self._take(deadline)
        replies: list[Reply] = []
        try:
            link.send(b"".join(requests), deadline=deadline)
            replies.extend(link.receive(deadline=deadline) for _ in requests)
        except (OSError, NotRedis) as error:
            link.close()
            unknown = self._unanswered(error)
            return replies + [unknown] * (len(requests) - len(replies))
        except BaseException:  # as above
            link.close()
            raise
        self._put_back(link)
        return replies

    def _unanswered(self, error: BaseException) -> LockError:
        unknown: LockError = OutcomeUnknown(f"{self.where} did not answer: {error}")
        if isinstance(error, NotRedis):
            unknown = refusals.not_redis(where=self.where)
        unknown.__cause__ = error
        return unknown

    def _take(self, deadline: float) -> Link:
        now = self._clock.now()
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return self._connect(deadline)
            if link.is_sound(now):
                return link
            link.close()

    def _put_back(self, link: Link) -> None:
        link.used_at = self._clock.now()
        if len(self._idle) < KEPT and link.generation == self._generation:
            self._idle.append(link)
        else:
            link.close()

    def _connect(self, deadline: float) -> Link:
        return self._dial({}, deadline)

    def _dial(self, endpoint: dict[str, Any], deadline: float) -> Link:
        generation = self._generation
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
                    **_in_python(),
                }
            )
        except OSError as error:
            # It reads its own version from a file, each time: nothing more may be opened.
            raise refusals.unreachable(error, where=self.where) from error
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
            raise refusals.unreachable(error, where=self.where) from error
        except (AttributeError, TypeError, ValueError) as error:
            # What the driver makes of bytes that are not the protocol's.
            connection.disconnect()
            raise refusals.not_redis(where=self.where) from error
        except BaseException:  # an interrupt: nobody will use it
            connection.disconnect()
            raise
        return link

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
            self._confirmed(link.receive(deadline=deadline))
            return self._known((kind or Subscription)(link, hear, clock=self._clock))
        except OSError as error:
            # Of the connection, or no descriptors are left for what a subscription needs besides.
            link.close()
            raise refusals.unreachable(error, where=self.where) from error
        except NotRedis as error:
            link.close()
            raise self._unanswered(error) from error
        except BaseException:
            link.close()
            raise

    def _known(self, subscription: Subscription) -> Subscription:
        self._subscriptions[id(subscription)] = subscription
        if subscription.generation != self._generation:
            subscription.shut()  # its server was left before it was known here
        return subscription

    def _confirmed(self, reply: Reply | Push) -> None:
        if isinstance(reply, Refusal):
            raise refusals.refused(reply, where=self.where)

    def masters(self, *, deadline: float) -> list[Wire]:
        """Return the way to each server that holds some of the names: here to this one."""
        del deadline
        return [self]

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

    def close(self) -> None:
        """Close every connection: now, or when its call has ended."""
        self._generation += 1
        while self._idle:
            self._idle.pop().close()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's connections: closing them here ends nothing there."""
        idle, self._idle = self._idle, []
        for link in idle:
            link.close()


def _in_python() -> dict[str, Any]:
    """Return the options that keep the driver from packing and parsing by hiredis.

    That is C, and an exception which a signal raises in the middle of it has ended the
    interpreter. For the few commands of a connection's beginning it gains nothing.
    """
    encoder = Encoder("utf-8", "strict", decode_responses=False)  # type: ignore[no-untyped-call]
    packer = driver.PythonRespSerializer(6000, encoder.encode)
    return {"parser_class": _RESP3Parser, "command_packer": packer}
