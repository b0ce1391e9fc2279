"""The wire of the sync flavour: blocking calls on the caller's thread; `aio` is its pair.

A small pool: each call takes a connection for itself and puts it back, so there are as
many as threads that ever called at once. A call that is not answered in time closes its
connection, whose next reply would belong to somebody who no longer listens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from lockfast.backends.wires.failures import unanswered
from lockfast.backends.wires.parsing import MORE, Gibberish, misbehaved
from lockfast.errors import LockError
from lockfast.runtime.blocking import BlockingSocket, IdleLinks

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from lockfast.backends.wires.parsing import Parser
    from lockfast.runtime.clock import Clock

__all__ = ["SocketLink", "SocketWire"]


class SocketLink(BlockingSocket):
    """One connection, used by one thread at a time."""

    __slots__ = ("_parser",)

    _unasked: ClassVar[type | None] = None
    """What the protocol lets a server say at any time: it answers nothing, and is passed over."""

    def __init__(
        self, sock: socket.socket, parser: Parser, clock: Clock, *, generation: int
    ) -> None:
        super().__init__(sock, clock, generation)
        self._parser = parser

    def ask(self, request: bytes, *, deadline: float, ahead: bytes = b"") -> Any:  # noqa: ANN401
        """Send a request, and return the reply to it, or raise OSError."""
        self.send(ahead + request, deadline=deadline)
        # Nothing is due before it, so there is no use in looking at what was read already.
        parser = self._parser
        parser.feed(self._receive(deadline))
        if ahead:
            self.receive(deadline=deadline)
        reply = parser.next()
        if reply is MORE or reply.__class__ is self._unasked:
            return self.receive(deadline=deadline)
        return reply

    def receive(self, *, deadline: float) -> Any:  # noqa: ANN401 - the protocol's
        """Return the next reply, or raise OSError."""
        unasked = self._unasked
        while (reply := self.receive_any(deadline=deadline)).__class__ is unasked:
            pass
        return reply

    def receive_any(self, *, deadline: float) -> Any:  # noqa: ANN401 - the protocol's
        """As `receive`, but return also what was said unasked."""
        parser = self._parser
        while (reply := parser.next()) is MORE:
            parser.feed(self._receive(deadline))
        return reply

    def take_in(self) -> None:
        """Take what has come, without waiting for more; raise OSError if it has ended."""
        self._parser.feed(self._here())

    def buffered(self) -> Any:  # noqa: ANN401 - the protocol's
        """Return a reply that is already here, or MORE."""
        return self._parser.next()


L = TypeVar("L", bound=SocketLink)
T = TypeVar("T")


class SocketWire(Generic[L]):
    """The way to one server. A store says how a link is made, and what a failure of that means."""

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.where = where
        self._clock = clock
        self._idle = IdleLinks[L](clock)
        self._has_answered = False
        """Whether a connection was ever made: then the address is right."""

    def ask(self, request: bytes, *, deadline: float, ahead: bytes = b"") -> Any:  # noqa: ANN401
        """Return the reply to one command, which may be a refusal.

        The one that is sent ahead of it, if any, is answered too, and nobody hears of that.
        Raises BackendUnavailable if nothing was sent, OutcomeUnknown if no reply came.
        """
        # As `_used`, in its own frame: every acquire and every release passes here.
        link = self._idle.take() or self._connect(deadline)
        try:
            reply = link.ask(request, deadline=deadline, ahead=ahead)
        except BaseException as error:
            # Also of a KeyboardInterrupt: the reply is still on its way to this connection.
            link.close()
            if isinstance(error, OSError | Gibberish):
                raise self._unanswered(error) from error
            raise
        self._idle.put_back(link)
        return reply

    def ask_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Any]:
        """Return the replies to several commands, sent together; an error for each that is lost."""
        replies: list[Any] = []

        def act(link: L) -> None:
            link.send(b"".join(requests), deadline=deadline)
            replies.extend(link.receive(deadline=deadline) for _ in requests)

        link = self._take(deadline)
        try:
            self._used(link, act)
        except LockError as unknown:
            return replies + [unknown] * (len(requests) - len(replies))
        return replies

    def _used(self, link: L, act: Callable[[L], T]) -> T:
        """Return what is done with a link, which is kept for the next unless a reply is missing."""
        try:
            result = act(link)
        except (OSError, Gibberish) as error:
            link.close()
            raise self._unanswered(error) from error
        except BaseException:
            # A KeyboardInterrupt, say: the reply is still on its way to this connection.
            link.close()
            raise
        self._idle.put_back(link)
        return result

    def _unanswered(self, error: BaseException) -> LockError:
        if not isinstance(error, Gibberish):
            return unanswered(error, where=self.where)
        found = misbehaved(*error.args, where=self.where)
        found.__cause__ = error
        return found

    def _take(self, deadline: float) -> L:
        return self._idle.take() or self._connect(deadline)

    def _connect(self, deadline: float) -> L:
        """Return a new link, or raise what `_unreachable` says."""
        raise NotImplementedError

    def _unreachable(self, error: BaseException) -> LockError:
        """Return the error behind a connection that could not be made."""
        raise NotImplementedError

    # -- closing -----------------------------------------------------------------------

    def leave(self) -> None:
        """Let no connection that was made before be used again, nor listened to."""
        SocketWire.close(self)

    def close(self) -> None:
        """Close every connection: now, or when its call has ended."""
        self._idle.close()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's connections: closing them here ends nothing there."""
        self._idle.forget()
