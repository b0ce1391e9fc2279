"""A socket that is used by one thread at a time, and a pool of idle sockets."""

from __future__ import annotations

import contextlib
import socket
import ssl
from _socket import socket as KernelSocket  # noqa: N812 - base of `socket.socket`, unless patched
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.backends.network.codec import NotSent
from lockfast.platforms import here
from lockfast.runtime.timers import SPIN_LIMIT, SPIN_SECONDS, SpinBudget

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.runtime.clock import Clock


def shut_down(sock: socket.socket) -> None:
    """End the connection of a socket that another thread may be using; that thread closes it."""
    with contextlib.suppress(OSError):  # the connection has ended already
        # Not the method of a TLS socket, which drops its encryption first. What the other thread
        # sends in between, such as a password, would go out in clear text.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


TRUSTED_UNPOLLED_SECONDS = 0.05
"""A connection used within this many seconds is reused without a check."""

IDLE_CONNECTIONS_MAX = 64
"""Maximum number of connections kept for the next calls."""


class BlockingSocket:
    """A connected socket whose calls end at a deadline; used by one thread at a time.

    The deadline is checked once per receive, before anything is read. If it were checked only
    before sleeping, a server that keeps sending could prolong the call for ever, because there
    would always be data and no sleep. All our connections receive through this class; a loop that
    reads several sockets checks its own deadline once per round in the same way. After the
    deadline, one more receive takes the data that has already arrived, because this process may
    have been stopped while the reply arrived in time.
    """

    __slots__ = (
        "_clock",
        "_is_plain",
        "_late_for",
        "_looking",
        "_poll",
        "_sock",
        "generation",
        "used_at",
    )

    def __init__(self, sock: socket.socket, clock: Clock, generation: int) -> None:
        self._sock = sock
        # Calls on a plain socket do not wait: they are tried at once, and `poll` waits if need be.
        # The usual request thus takes fewer calls than with Python's own timeouts. A timeout of the
        # kernel takes as few, but begins again after each signal, so that a timer that keeps
        # signalling prolongs the call for ever. TLS and gevent read through layers of their own,
        # and use Python's timeouts.
        waits_in_kernel = here.HAS_NO_WAIT and issubclass(type(sock), KernelSocket)
        self._is_plain = waits_in_kernel and not isinstance(sock, ssl.SSLSocket)
        if self._is_plain:
            sock.settimeout(None)
        self._poll: Callable[[float], list[tuple[int, int]]] | None = None
        self._clock = clock
        self._looking = SpinBudget()
        self._late_for: float | None = None
        self.generation: int = generation
        self.used_at: float = clock.now()

    def is_sound(self, now: float) -> bool:
        """Whether the connection seems usable, as far as can be seen without a request."""
        # No reply is due, so anything to read means the end of the connection.
        return now - self.used_at < TRUSTED_UNPOLLED_SECONDS or not self._has_come()

    def _has_come(self) -> bool:
        """Whether there is something to read, including the end of the connection."""
        poll = here.Poll()
        poll.register(self._sock, here.READ)
        return bool(poll.poll(0))

    def send(self, data: bytes, *, deadline: float) -> None:
        """Send all the data, or raise OSError; NotSent if the deadline has passed already."""
        left = deadline - self._clock.now()
        if left <= 0:
            raise NotSent("not sent in time")
        sock, sent = self._sock, 0
        if self._is_plain:
            try:
                sent = sock.send(data, here.NO_WAIT)
            except BlockingIOError:
                pass  # the buffers are full
            else:
                if sent == len(data):
                    return
        # The rest takes Python's timeout, which is for all the data and outlasts signals.
        sock.settimeout(left)
        sock.sendall(data[sent:])
        if self._is_plain:
            sock.settimeout(None)

    def _receive(self, deadline: float) -> bytes:
        """Return the next data, or raise OSError; TimeoutError once the deadline has passed."""
        now = self._clock.now()
        if now >= deadline:
            return self._received_late(deadline)
        looking = self._looking
        data = None
        if looking.sleeps:
            looking.sleeps -= 1
        elif self._is_plain:
            data = self._spin_for(looking, now + SPIN_SECONDS)
        if data is None:
            data = self._sleep_for(deadline)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def _sleep_for(self, deadline: float) -> bytes:
        """Wait for data, at most until the deadline."""
        sock, now = self._sock, self._clock.now
        if not self._is_plain:
            sock.settimeout(max(0.001, deadline - now()))
            return sock.recv(65536)
        if (ready := self._poll) is None:
            poll = here.Poll()
            poll.register(sock, here.READ)
            ready = self._poll = poll.poll
        # Stop a little early, so that the caller can act on the silence before its own deadline.
        while ready(max(0.0, deadline - now()) * 950):
            try:
                return sock.recv(65536, here.NO_WAIT)
            except BlockingIOError:
                continue  # the kernel discarded what had arrived
        raise TimeoutError("no answer in time")

    def _received_late(self, deadline: float) -> bytes:
        """Return the data that has arrived, at most once per deadline; otherwise raise OSError."""
        if self._late_for != deadline:
            self._late_for = deadline
            if data := self._here():
                return data
        raise TimeoutError("no answer in time")

    def _spin_for(self, looking: SpinBudget, until: float) -> bytes | None:
        """Poll for data briefly before going to sleep; None if none arrives."""
        sock, now = self._sock, self._clock.now
        for _ in range(SPIN_LIMIT):
            try:
                data = sock.recv(65536, here.NO_WAIT)
            except BlockingIOError:
                if now() > until:
                    break
                here.yield_processor()  # the server may need this very processor
            else:
                if looking.backoff > 1:
                    looking.found()
                return data
        looking.spin_failed()
        return None

    def _here(self) -> bytes:
        """Return data that has arrived, perhaps none; raise OSError if the connection has ended."""
        sock = self._sock
        try:
            if self._is_plain:
                data = sock.recv(65536, here.NO_WAIT)
            else:
                sock.settimeout(0.0)
                data = sock.recv(65536)
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def fileno(self) -> int:
        """Return the file descriptor to poll."""
        return self._sock.fileno()

    def has_buffered(self) -> bool:
        """Whether TLS has bytes that a poll would not see."""
        pending = getattr(self._sock, "pending", None)
        return pending is not None and pending() > 0

    def shut(self) -> None:
        """Make the reader see the end of the connection; the reader still has to close it."""
        shut_down(self._sock)

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()

    def __del__(self) -> None:
        # An interrupt may strike after a connection was taken from the pool and before it has an
        # owner. Then nothing refers to the connection, and nothing else would close it.
        sock = getattr(self, "_sock", None)
        if sock is not None:
            sock.close()


IdleT = TypeVar("IdleT", bound=BlockingSocket)


class IdleConnections(Generic[IdleT]):
    """Connections that are not in use."""

    def __init__(self, clock: Clock) -> None:
        self.generation: int = 0
        """Only connections of this generation are kept. The generation of a connection is the one
        in which it began to connect."""
        self._clock = clock
        self._idle: list[IdleT] = []

    def take(self) -> IdleT | None:
        """Return a connection for exclusive use until `put_back`; None if no connection is idle."""
        now = self._clock.now()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_sound(now):
                return connection
            connection.close()

    def take_unchecked(self) -> IdleT | None:
        """Like `take`, but leave it to the caller to check the connection."""
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread took the last one
                connection = self._idle.pop()
                if connection.generation == self.generation:
                    return connection
                connection.close()
        return None

    def put_back(self, connection: IdleT) -> None:
        """Keep the connection for the next call; close it if it is outdated or the pool is full."""
        connection.used_at = self._clock.now()
        if len(self._idle) < IDLE_CONNECTIONS_MAX and connection.generation == self.generation:
            self._idle.append(connection)
            if connection.generation != self.generation:
                self.forget()  # another thread called `close` just before this was appended
        else:
            connection.close()

    def close(self) -> None:
        """Close idle connections now, and busy connections when their calls end."""
        self.generation += 1
        self.forget()

    def forget(self) -> None:
        """Close the idle connections; in a forked child this does not affect the parent."""
        while self._idle:
            self._idle.pop().close()
