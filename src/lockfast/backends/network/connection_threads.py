"""Pooled connections and transport of the sync flavour, on the caller's thread.

`connection_aio` has the asyncio counterparts. The pool is small. Each call takes a connection for
itself and puts it back, so there are at most as many connections as threads that ever called at
once. A call that is not answered in time closes its connection, because the next reply on it would
belong to a caller that no longer waits.
"""

from __future__ import annotations

import contextlib
import socket
import time
import weakref
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from lockfast.backends.network.blocking_socket import BlockingSocket, IdleConnections, shut_down
from lockfast.backends.network.codec import (
    NEED_MORE,
    NotSent,
    ProtocolError,
    misbehaved,
)
from lockfast.backends.network.errors import not_connected, too_late, unanswered
from lockfast.backends.network.target import (
    AddressAttempts,
    Reachability,
    name_errors,
    ordered,
)
from lockfast.errors import LockError
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.network.codec import Codec
    from lockfast.backends.network.target import Handshake, Target, Unreachable
    from lockfast.runtime.clock import Clock

__all__ = [
    "Connector",
    "SocketConnection",
    "SocketTransport",
    "dial",
]

# Making a connection.


def addresses_of(target: Target, *, first: str) -> list[str]:
    """Return the IP addresses of the target's host, beginning with `first` if it is one."""
    if target.endpoint is None or target.literal is not None:
        return [target.literal or ""]
    with name_errors():
        found = socket.getaddrinfo(*target.endpoint, type=socket.SOCK_STREAM)
    return ordered(found, first=first)


def dial(
    target: Target, address: str, *, seconds: float, begun: Callable[[socket.socket], None]
) -> socket.socket:
    """Return a socket connected to one address of the target, with TLS if the target has it.

    `begun` is called with each socket before it waits, so that another thread can shut it down.
    """
    until = time.monotonic() + seconds
    place: str | tuple[str, int] = address
    if target.endpoint is None:
        sock = socket.socket(here.UNIX_FAMILY, socket.SOCK_STREAM)
    else:
        place = (address, target.endpoint.port)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        begun(sock)
        sock.settimeout(max(0.001, seconds))
        sock.connect(place)
        if target.endpoint is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if target.tls is None or target.endpoint is None:
            return sock
        sock = target.tls.context().wrap_socket(
            sock, server_hostname=target.endpoint.host, do_handshake_on_connect=False
        )
        begun(sock)
        sock.settimeout(max(0.001, until - time.monotonic()))
        sock.do_handshake()
    except BaseException:
        sock.close()
        raise
    return sock


# A connection for requests, and the transport.


class SocketConnection(BlockingSocket):
    """One connection, used by one thread at a time."""

    __slots__ = ("_codec",)

    _unsolicited: ClassVar[type | None] = None
    """Class of the messages that a server may send at any time. Such messages belong to no request,
    and are skipped."""

    def __init__(self, sock: socket.socket, codec: Codec, clock: Clock, *, generation: int) -> None:
        super().__init__(sock, clock, generation)
        self._codec = codec

    def ask(self, request: bytes, *, deadline: float) -> Any:  # noqa: ANN401
        """Send a request and return its reply, or raise OSError."""
        self.send(request, deadline=deadline)
        # No earlier reply is due, so there is no need to ask the codec for a complete reply first.
        codec = self._codec
        codec.feed(self._receive(deadline))
        reply = codec.next()
        if reply is NEED_MORE or reply.__class__ is self._unsolicited:
            return self.receive(deadline=deadline)
        return reply

    def receive(self, *, deadline: float) -> Any:  # noqa: ANN401 - the protocol's
        """Return the next reply, or raise OSError."""
        unsolicited = self._unsolicited
        while (reply := self.receive_any(deadline=deadline)).__class__ is unsolicited:
            pass
        return reply

    def receive_any(self, *, deadline: float) -> Any:  # noqa: ANN401 - the protocol's
        """Like `receive`, but also return messages that belong to no request."""
        codec = self._codec
        while (reply := codec.next()) is NEED_MORE:
            codec.feed(self._receive(deadline))
        return reply

    def take_in(self) -> None:
        """Read what has arrived, without waiting; raise OSError if the connection has ended."""
        self._codec.feed(self._here())

    def buffered(self) -> Any:  # noqa: ANN401 - the protocol's
        """Return a reply that has already arrived, or NEED_MORE."""
        return self._codec.next()

    def is_drained(self) -> bool:
        """Whether nothing is left that the next request would take for its reply."""
        codec, unsolicited = self._codec, self._unsolicited
        while not codec.is_empty:
            if unsolicited is None:
                return False
            try:
                if codec.next().__class__ is not unsolicited:
                    return False
            except ProtocolError:
                return False
        return True

    def run_handshake(self, steps: Handshake, *, until: float) -> None:
        """Send the requests of the steps, and send the steps their replies.

        Raises OSError if the connection ends, and ProtocolError if it is not understood.
        """
        with contextlib.suppress(StopIteration):
            requests = next(steps)
            while True:
                self.send(b"".join(requests), deadline=until)
                requests = steps.send([self.receive(deadline=until) for _ in requests])
        if not self.is_drained():
            raise ProtocolError("more than was asked for")


AnyConnection = TypeVar("AnyConnection", bound=BlockingSocket)
ConnectionT = TypeVar("ConnectionT", bound=SocketConnection)
T = TypeVar("T")


class Connector(Reachability, Generic[AnyConnection]):
    """Connects to one server; a store brings its kind of connection, and how that begins."""

    def __init__(self, target: Target, *, unreachable: Unreachable, clock: Clock) -> None:
        super().__init__(target, unreachable=unreachable, clock=clock)
        self._idle = IdleConnections[AnyConnection](clock)
        self._dialed: weakref.WeakValueDictionary[int, socket.socket] = (
            weakref.WeakValueDictionary()
        )

    def connect(self, *, deadline: float) -> AnyConnection:
        """Return a new connection, which the caller has to close.

        Raises BackendUnavailable, or ConfigurationError for what does not pass by waiting.
        """
        return self._connect_to(self._target, deadline)

    def _connect_to(self, target: Target, deadline: float) -> AnyConnection:
        generation = self._idle.generation
        if deadline <= self._clock.now():
            raise not_connected(where=self.where)
        try:
            attempts = AddressAttempts(addresses_of(target, first=self._answered_at))
        except OSError as error:
            raise self._unreachable(error) from error
        for address in attempts:
            now = self._clock.now()
            until = now + attempts.share(deadline - now)
            try:
                connection = self._connect_at(target, address, until, generation)
            except LockError as error:
                attempts.failed(error)
            else:
                self._answered(address)
                return connection
        raise attempts.pop_error()

    def _connect_at(
        self, target: Target, address: str, until: float, generation: int
    ) -> AnyConnection:
        sock: socket.socket | None = None
        try:
            seconds = until - self._clock.now()
            sock = dial(target, address, seconds=seconds, begun=self._register)
            connection = self._new_connection(sock, generation)
            self._greet(connection, until)
            self._dialed.pop(id(sock), None)
        except BaseException as error:
            if sock is not None:  # after an interrupt too nobody will use it
                sock.close()
            if (failure := self._failure(error)) is None:
                raise
            try:
                raise failure from error
            finally:
                del failure  # see `AddressAttempts.pop_error`
        return connection

    def _register(self, sock: socket.socket) -> None:
        self._dialed[id(sock)] = sock

    def _new_connection(self, sock: socket.socket, generation: int) -> AnyConnection:
        """Return a connection on this socket."""
        raise NotImplementedError

    def _greet(self, connection: AnyConnection, until: float) -> None:
        """Return once the connection can be used."""
        raise NotImplementedError

    # -- closing -----------------------------------------------------------------------

    def leave(self) -> None:
        """Stop using every connection made so far, including a connection that listens."""
        Connector.close(self)

    def close(self) -> None:
        """Close idle connections now, and busy connections when their calls end."""
        self._idle.close()

    def hang_up(self) -> None:
        """Interrupt threads that are connecting, because they are about to be joined."""
        for reference in self._dialed.valuerefs():
            if (sock := reference()) is not None:
                shut_down(sock)

    def after_fork_in_child(self) -> None:
        """Close our copies of the parent's connections, which does not affect the parent."""
        self._idle.forget()
        self._dialed = weakref.WeakValueDictionary()  # so that `hang_up` spares the parent's


class SocketTransport(Connector[ConnectionT]):
    """Requests and replies on pooled connections, each used by one thread at a time."""

    def ask(self, request: bytes, *, deadline: float) -> Any:  # noqa: ANN401
        """Return the reply to one request, which may be a refusal.

        Raises BackendUnavailable if nothing was sent, and OutcomeUnknown if no reply came.
        """
        # This does the same as `_used`, but without its stack frame, because every acquire and
        # every release passes here.
        connection = self._idle.take() or self.connect(deadline=deadline)
        try:
            reply = connection.ask(request, deadline=deadline)
        except NotSent as error:
            self._idle.put_back(connection)
            raise too_late(where=self.where) from error
        except BaseException as error:
            # Close the connection after a KeyboardInterrupt too, because the reply is still on its
            # way to this connection.
            connection.close()
            if isinstance(error, OSError | ProtocolError):
                raise self._unanswered(error) from error
            raise
        if connection.is_drained():
            self._idle.put_back(connection)
        else:
            connection.close()
        return reply

    def send_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Any]:
        """Send several requests together; return each reply, or an error if that reply is lost."""
        replies: list[Any] = []

        def act(connection: ConnectionT) -> None:
            connection.send(b"".join(requests), deadline=deadline)
            replies.extend(connection.receive(deadline=deadline) for _ in requests)

        connection = self._take(deadline)
        try:
            self._used(connection, act)
        except LockError as unknown:
            return replies + [unknown] * (len(requests) - len(replies))
        return replies

    def _used(self, connection: ConnectionT, act: Callable[[ConnectionT], T]) -> T:
        """Return the result of `act`; keep the connection unless a reply is missing."""
        try:
            result = act(connection)
        except (OSError, ProtocolError) as error:
            connection.close()
            raise self._unanswered(error) from error
        except BaseException:
            # After a KeyboardInterrupt, for example, the reply is still on its way to this
            # connection.
            connection.close()
            raise
        if connection.is_drained():
            self._idle.put_back(connection)
        else:
            connection.close()
        return result

    def _unanswered(self, error: BaseException) -> LockError:
        if not isinstance(error, ProtocolError):
            return unanswered(error, where=self.where)
        found = misbehaved(*error.args, where=self.where)
        found.__cause__ = error
        return found

    def _take(self, deadline: float) -> ConnectionT:
        return self._idle.take() or self.connect(deadline=deadline)

    def _greet(self, connection: ConnectionT, until: float) -> None:
        connection.run_handshake(self._handshake(), until=until)

    def _handshake(self) -> Handshake:
        """Return the first exchange on a new connection."""
        raise NotImplementedError
