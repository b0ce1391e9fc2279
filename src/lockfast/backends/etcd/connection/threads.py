"""The way to one member, sync flavour: blocking calls on the caller's thread; `aio` is its pair.

A connection carries one call at a time, though HTTP/2 could carry many: to hand an answer from the
thread that read it to the one that waits takes longer than the request. So there are as many
connections as threads that ever called at once. A call that is not answered in time closes its
own, which tells the member to leave it.
"""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.etcd import refusals
from lockfast.backends.etcd.http2.calls import Asked, Broken, Refusal, head
from lockfast.backends.etcd.http2.conversation import Conversation
from lockfast.backends.etcd.http2.frames import NotHttp2
from lockfast.backends.etcd.watching.threads import Watching
from lockfast.errors import BackendUnavailable
from lockfast.runtime.blocking import BlockingSocket, IdleLinks

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from lockfast.backends.etcd.addresses import Endpoint
    from lockfast.runtime.clock import Clock

__all__ = ["Channel", "Link"]


class Question(Asked):
    """A call whose outcome is kept for the thread that waits for it."""

    __slots__ = ("outcome",)

    def __init__(self, head: bytes, body: bytes) -> None:
        super().__init__(head, body)
        self.outcome: bytes | Refusal | Broken | None = None

    def ended(self, end: Refusal | Broken | None) -> None:
        """Keep what became of it."""
        self.outcome = self.result(end)


class Link(BlockingSocket):
    """One connection, used by one thread at a time."""

    __slots__ = ("talk",)

    def __init__(self, sock: socket.socket, clock: Clock, generation: int) -> None:
        super().__init__(sock, clock, generation)
        self.talk: Conversation = Conversation()

    def greet(self, *, deadline: float) -> None:
        """Return once the member has answered our greeting, or raise OSError or NotHttp2."""
        self.flush(deadline=deadline)
        while not self.talk.is_greeted:
            self.read(deadline=deadline)

    def ask(self, call: Question, *, deadline: float) -> None:
        """Return once the call is over, or raise OSError or NotHttp2."""
        talk = self.talk
        talk.begin(call)
        while not call.is_over:
            # What is said besides, such as that settings were seen, may go with the next call.
            if said := talk.outgoing():
                self.send(said, deadline=deadline)
            talk.feed(self._receive(deadline))

    def flush(self, *, deadline: float) -> None:
        """Send what is to be said, or raise OSError."""
        if said := self.talk.outgoing():
            self.send(said, deadline=deadline)

    def read(self, *, deadline: float) -> None:
        """Take what comes next, or raise OSError or NotHttp2."""
        self.talk.feed(self._receive(deadline))

    def is_sound(self, now: float) -> bool:
        """Whether it can carry another call, as far as can be seen without asking."""
        try:
            if self._has_come():
                # It may be a word that needs no answer at once, as well as the end.
                self.read(deadline=now + 1.0)
        except (OSError, NotHttp2):
            return False
        return not self.talk.is_leaving


class Channel:
    """The way to one member; `lost` is called when it was there and is not any more."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        where: str,
        tls: ssl.SSLContext | None,
        clock: Clock,
        lost: Callable[[Channel], None],
    ) -> None:
        self.endpoint = endpoint
        self._head = partial(head, authority=str(endpoint).encode(), is_secure=tls is not None)
        self._where = where
        self._tls = tls
        self._clock = clock
        self._lost = lost
        self._idle = IdleLinks[Link](clock)
        self._has_answered = False

    # -- asking ------------------------------------------------------------------------

    def ask(
        self, path: bytes, body: bytes, *, token: bytes, deadline: float, connect_by: float
    ) -> bytes | Refusal:
        """Return the answer to one call, which may be a refusal.

        Raises BackendUnavailable if nothing was done, OutcomeUnknown if no answer came.
        """
        call = Question(self._head(path, token=token), body)
        link = self._idle.take() or self._connect(connect_by)
        try:
            link.ask(call, deadline=deadline)
        except (OSError, NotHttp2) as error:
            link.close()
            self._lost(self)
            broken = Broken(str(error) or type(error).__name__, call.is_undone)
            raise refusals.unanswered(broken, where=self._where) from error
        except BaseException:
            # A KeyboardInterrupt, say: the answer is still on its way to this connection.
            link.close()
            raise
        self._idle.put_back(link)
        if isinstance(call.outcome, bytes | Refusal):
            return call.outcome
        assert call.outcome is not None  # noqa: S101 - it is over
        raise refusals.unanswered(call.outcome, where=self._where)

    def _connect(self, deadline: float) -> Link:
        generation = self._idle.generation
        left = deadline - self._clock.now()
        if left <= 0:
            raise BackendUnavailable(f"{self._where}: there was no time left to connect")
        sock: socket.socket | None = None
        try:
            sock = socket.create_connection(self.endpoint, left)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_hostname=self.endpoint.host)
            link = Link(sock, self._clock, generation)
            link.greet(deadline=deadline)
        except (OSError, NotHttp2) as error:
            if sock is not None:
                sock.close()
            self._lost(self)
            raise self._unreachable(error) from error
        except BaseException:  # an interrupt: nobody will use it
            if sock is not None:
                sock.close()
            raise
        self._has_answered = True
        return link

    def _unreachable(self, error: BaseException) -> Exception:
        return refusals.unreachable(
            error, where=self._where, endpoint=self.endpoint, has_answered=self._has_answered
        )

    # -- watching ----------------------------------------------------------------------

    def watch(
        self,
        path: bytes,
        hear: Callable[[bytes], None],
        *,
        token: bytes,
        connect_by: float,
    ) -> Watching:
        """Return a stream that was begun, on a connection of its own."""
        link = self._connect(connect_by)
        begins = self._head(path, token=token, needs_leader=True)
        try:
            return Watching(link, begins, hear, clock=self._clock)
        except OSError as error:
            # Of the connection, or no descriptors are left for what a stream needs besides.
            link.close()
            raise self._unreachable(error) from error
        except BaseException:  # a refusal, or an interrupt: nobody will read it
            link.close()
            raise

    # -- closing -----------------------------------------------------------------------

    def leave(self) -> None:
        """Let no connection that was made before be used again."""
        self._idle.close()

    def close(self) -> None:
        """Close every connection: now, or when its call has ended."""
        self._idle.close()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's connections: closing them here ends nothing there."""
        self._idle.forget()
