"""A socket that one thread at a time asks and waits on, and what is kept of them for later."""

from __future__ import annotations

import contextlib
import socket
import ssl
from _socket import socket as KernelSocket  # noqa: N812 - what `socket.socket` is, unless patched
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.platforms import here
from lockfast.runtime.looking import LOOK_FOR, LOOKS, Looking

if TYPE_CHECKING:
    from lockfast.runtime.clock import Clock

JUST_NOW = 0.05
"""A connection that was used so lately is not looked at before it is used again."""

KEPT = 64
"""As many connections are kept for the next calls."""


class BlockingSocket:
    """A connected socket whose calls end at a deadline; used by one thread at a time.

    The deadline is checked once per receive, before anything is read. A server that keeps talking
    always has data ready, so a check that is made only before sleeping would never be made, and
    the call would last as long as the server likes. Every wire of ours receives through here;
    a loop that reads several sockets checks its own deadline once per round in the same way.
    After the deadline one more receive takes what is there: this process may have been stopped
    while the reply arrived in time.
    """

    __slots__ = ("_armed", "_clock", "_late_for", "_looking", "_sock", "generation", "used_at")

    def __init__(self, sock: socket.socket, clock: Clock, generation: int) -> None:
        self._sock = sock
        # The kernel keeps the time of a plain socket: Python's own timeouts ask it twice
        # before each call. TLS reads in its own way, and gets Python's; and so does gevent,
        # whose sockets never wait in the kernel.
        waits_in_kernel = here.KEEPS_TIME and issubclass(type(sock), KernelSocket)
        is_plain = waits_in_kernel and not isinstance(sock, ssl.SSLSocket)
        self._armed: float | None = 0.0 if is_plain else None
        if self._armed is not None:
            sock.settimeout(None)
        self._clock = clock
        self._looking = Looking()
        self._late_for: float | None = None
        self.generation: int = generation
        self.used_at: float = clock.now()

    def is_sound(self, now: float) -> bool:
        """Whether the server still listens, as far as can be seen without asking it."""
        # Nothing is due, so what came is the end.
        return now - self.used_at < JUST_NOW or not self._has_come()

    def _has_come(self) -> bool:
        """Whether there is something to read, be it the end."""
        poll = here.Poll()
        poll.register(self._sock, here.READ)
        return bool(poll.poll(0))

    def send(self, data: bytes, *, deadline: float) -> None:
        """Send all of it, or raise OSError."""
        self._arm(deadline)
        try:
            self._sock.sendall(data)
        except BlockingIOError:  # how the kernel says that the time is up
            raise TimeoutError("not sent in time") from None

    def _receive(self, deadline: float) -> bytes:
        """Return what comes next, or raise OSError; TimeoutError once the deadline has passed."""
        now = self._clock.now()
        if now >= deadline:
            return self._received_late(deadline)
        looking = self._looking
        data = None
        if looking.sleeps:
            looking.sleeps -= 1
        elif self._armed is not None:
            data = self._looked_for(looking, now + LOOK_FOR)
        if data is None:
            self._arm(deadline)
            try:
                data = self._sock.recv(65536)
            except BlockingIOError:  # as above
                raise TimeoutError("no answer in time") from None
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def _received_late(self, deadline: float) -> bytes:
        """Return what has come by now, once for each deadline, or raise OSError."""
        if self._late_for != deadline:
            self._late_for = deadline
            if data := self._here():
                return data
        raise TimeoutError("no answer in time")

    def _looked_for(self, looking: Looking, until: float) -> bytes | None:
        """Return what comes before it is worth sleeping for; None if nothing does."""
        sock, now = self._sock, self._clock.now
        for _ in range(LOOKS):
            try:
                data = sock.recv(65536, here.NO_WAIT)
            except BlockingIOError:
                if now() > until:
                    break
                here.make_way()  # the server may wait for this very processor
            else:
                if looking.backoff > 1:
                    looking.found()
                return data
        looking.was_in_vain()
        return None

    def _here(self) -> bytes:
        """Return what has come, nothing if that is so; raise OSError if it has ended."""
        sock = self._sock
        try:
            if self._armed is None:
                sock.settimeout(0.0)
                data = sock.recv(65536)
            else:
                data = sock.recv(65536, here.NO_WAIT)
        except (BlockingIOError, ssl.SSLWantReadError):
            return b""
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

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
            here.keep_time(self._sock, armed)

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


class DeadlineSocket:
    """What a driver receives through, until a deadline; the socket stays its owner's to close.

    A driver applies its timeout to each receive by itself, so a server that keeps talking would
    never exceed it.
    """

    def __init__(self, sock: socket.socket, clock: Clock, *, deadline: float) -> None:
        self.deadline = deadline
        self._sock = sock
        self._clock = clock
        self._timeout: float | None = None

    def settimeout(self, seconds: float | None) -> None:
        """Let each receive take no longer than this, and no longer than the deadline allows."""
        self._timeout = seconds

    def recv(self, size: int) -> bytes:
        """Return what comes next."""
        left, timeout = self.deadline - self._clock.now(), self._timeout
        if timeout == 0:
            left = 0.0  # the driver only looks, which takes no time
        elif left <= 0:
            raise TimeoutError("no answer in time")
        self._sock.settimeout(left if timeout is None else min(left, timeout))
        return self._sock.recv(size)


L = TypeVar("L", bound=BlockingSocket)


class IdleLinks(Generic[L]):
    """Connections that nobody uses just now."""

    def __init__(self, clock: Clock) -> None:
        self.generation: int = 0
        """Of those that may be kept; a connection has the one of when it began to be made."""
        self._clock = clock
        self._idle: list[L] = []

    def take(self) -> L | None:
        """Return one that is the caller's alone until it is put back; None if there is none."""
        now = self._clock.now()
        while True:
            try:
                link = self._idle.pop()
            except IndexError:
                return None
            if link.is_sound(now):
                return link
            link.close()

    def put_back(self, link: L) -> None:
        """Keep it for the next call, or close it where it is not wanted any more."""
        link.used_at = self._clock.now()
        if len(self._idle) < KEPT and link.generation == self.generation:
            self._idle.append(link)
        else:
            link.close()

    def close(self) -> None:
        """Close every connection: now, or when its call has ended."""
        self.generation += 1
        self.forget()

    def forget(self) -> None:
        """Close those that nobody uses; in a forked child that ends nothing in its parent."""
        while self._idle:
            self._idle.pop().close()
