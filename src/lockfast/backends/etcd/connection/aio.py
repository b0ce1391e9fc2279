"""The way to one member, asyncio flavour: one connection for all calls; `threads` is its pair.

The calls of all tasks that ask in one turn of the loop go out in one write, each on a stream of its
own. Of a call that was cancelled or timed out the member is told to leave it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from lockfast._async.single_flight import AsyncSingleFlight
from lockfast.backends.etcd import refusals
from lockfast.backends.etcd.http2.calls import Asked, Broken, Refusal, head
from lockfast.backends.etcd.http2.conversation import Conversation
from lockfast.backends.etcd.http2.frames import NotHttp2
from lockfast.backends.etcd.watching.aio import Watching
from lockfast.errors import BackendUnavailable
from lockfast.runtime import forking
from lockfast.runtime.timing import OneTimer

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from lockfast.backends.etcd.addresses import Endpoint
    from lockfast.backends.etcd.http2.calls import Call
    from lockfast.runtime.clock import Clock

__all__ = ["Channel", "Link"]

SILENCE = 0.2
"""A connection that was silent for less is not taken for cut: no packet that got lost is sent
again sooner (Linux's least retransmission timeout). Then only the call that is late fails."""


UNREAD = 2**24
"""A member that has not read so much of what it was told reads nothing. It is more than all that
may be asked at once; whoever only asks for signs of life could let us fill the memory."""


class Question(Asked):
    """A call whose outcome a task waits for."""

    __slots__ = ("deadline", "outcome")

    def __init__(
        self, head: bytes, body: bytes, *, deadline: float, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(head, body)
        self.deadline: float = deadline
        self.outcome: asyncio.Future[bytes | Refusal | Broken] = loop.create_future()

    def ended(self, end: Refusal | Broken | None) -> None:
        """Tell the task what became of it."""
        if not self.outcome.done():
            self.outcome.set_result(self.result(end))


class Link(asyncio.Protocol):
    """One connection; times are the loop's."""

    def __init__(self, *, lost: Callable[[Link], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self.greeted: asyncio.Future[None] = self._loop.create_future()
        self._talk = Conversation()
        self._lost = lost
        self.heard: int = 0
        """How often something came; whoever only listens looks whether it has changed."""
        self._is_lost = False
        self._is_flushing = False
        self._questions: set[Question] = set()
        self._unheard_since: float | None = None
        self._timer = OneTimer(self._look)
        self._transport: asyncio.Transport

    @property
    def is_open(self) -> bool:
        """Whether it can carry another call."""
        return not (self._is_lost or self._talk.is_leaving)

    # -- saying ------------------------------------------------------------------------

    async def ask(self, head: bytes, body: bytes, *, deadline: float) -> bytes | Refusal | Broken:
        """Return what becomes of a call."""
        call = Question(head, body, deadline=deadline, loop=self._loop)
        self.begin(call)
        self._questions.add(call)
        self._timer.at(deadline)
        try:
            return await call.outcome
        finally:
            self._questions.discard(call)
            if not call.is_over:
                self.give_up(call)  # a cancellation

    def begin(self, call: Call) -> None:
        """Begin a call."""
        self._talk.begin(call)
        self._flush_soon()

    def add(self, call: Call, message: bytes) -> None:
        """Say more in a call that was left open."""
        self._talk.add(call, message)
        self._flush_soon()

    def give_up(self, call: Call) -> None:
        """Hear no more of a call."""
        self._talk.give_up(call)
        self._flush_soon()
        self._end_if_left()

    def ping(self) -> None:
        """Ask for a sign of life."""
        self._talk.ping()
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not (self._is_flushing or self._is_lost):
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flushing = False
        said = b"" if self._is_lost else self._talk.outgoing()
        if said:
            if self._unheard_since is None:
                self._unheard_since = self._loop.time()
            self._transport.write(said)
            if self._transport.get_write_buffer_size() > UNREAD:
                self.lose(ConnectionError("the member does not read what it is told"))

    # -- hearing -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the member."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - a TCP connection has one
        self._transport = transport
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Give the answers to those who wait for them."""
        self._unheard_since = None
        self.heard += 1
        try:
            self._talk.feed(data)
        except NotHttp2 as error:
            self.lose(error)
            return
        if self._talk.is_greeted and not self.greeted.done():
            self.greeted.set_result(None)
        if self._talk.has_outgoing:
            # Together with what those say who were just answered: they come first.
            self._flush_soon()
        if self._talk.is_leaving:
            self._lost(self)
            self._end_if_left()

    def _end_if_left(self) -> None:
        if self._talk.is_leaving and self._talk.is_idle:
            self.lose(ConnectionError("the member closes the connection"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait."""
        self.lose(exc or ConnectionError("the member closed the connection"))

    def lose(self, error: Exception) -> None:
        """Let go of the connection, and tell all who wait."""
        if self._is_lost:
            return
        self._is_lost = True
        if not self.greeted.done():
            self.greeted.set_exception(error)
        self._timer.cancel()
        self._transport.abort()
        self._talk.lose(str(error) or type(error).__name__)
        self._lost(self)

    def _look(self) -> None:
        now = self._loop.time()
        late = [one for one in self._questions if one.deadline <= now and not one.outcome.done()]
        # Those that wait for their turn come first: it must not be given to them by the others.
        for one in sorted(late, key=lambda one: one.number > 0):
            # Before its task runs, something may come that makes room, and what is said here to be
            # undone would be sent after all.
            self._talk.give_up(one)
            one.outcome.set_result(Broken(refusals.LATE, one.is_undone))
        moments = [one.deadline for one in self._questions if one.deadline > now]
        if late and self._unheard_since is not None and now >= self._unheard_since + SILENCE:
            # Not a byte since then: the way is cut, or the member stands still. Another
            # connection, or another member, may do.
            self.lose(TimeoutError(refusals.LATE))
        elif moments:
            self._timer.at(min(moments))
        if late:
            self._flush_soon()
            self._end_if_left()


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
        self._link: Link | None = None
        self._links: set[Link] = set()
        self._connecting = AsyncSingleFlight[Link](clock)
        self._has_answered = False

    # -- asking ------------------------------------------------------------------------

    async def ask(
        self, path: bytes, body: bytes, *, token: bytes, deadline: float, connect_by: float
    ) -> bytes | Refusal:
        """Return the answer to one call, which may be a refusal.

        Raises BackendUnavailable if nothing was done, OutcomeUnknown if no answer came.
        """
        link = self._link
        if link is None or not link.is_open:
            link = await self._connected(connect_by)
        moment = asyncio.get_running_loop().time() + deadline - self._clock.now()
        outcome = await link.ask(self._head(path, token=token), body, deadline=moment)
        if isinstance(outcome, Broken):
            raise refusals.unanswered(outcome, where=self._where)
        return outcome

    async def _connected(self, deadline: float) -> Link:
        if deadline <= self._clock.now():
            raise BackendUnavailable(f"{self._where}: there was no time left to connect")
        # All who ask meanwhile wait for the same attempt; none of them can cancel it.
        connecting = await self._connecting.fly(partial(self._connect, deadline), deadline=deadline)
        if connecting.is_known:
            return connecting.result()
        if connecting.is_cut_off:
            raise BackendUnavailable(f"{self._where}: closed before there was a connection")
        raise self._unreachable(TimeoutError("no connection in time"))

    async def _connect(self, deadline: float) -> Link:
        link = Link(lost=self._lose)
        loop = asyncio.get_running_loop()
        transport: asyncio.BaseTransport | None = None
        try:
            async with asyncio.timeout(max(0.001, deadline - self._clock.now())):
                host, port = self.endpoint
                transport, _ = await loop.create_connection(
                    lambda: link,
                    host,
                    port,
                    ssl=self._tls,
                    server_hostname=host if self._tls is not None else None,
                )
                await link.greeted
        except (OSError, NotHttp2) as error:
            if transport is not None:
                link.lose(ConnectionError("not greeted"))
            self._lost(self)
            raise self._unreachable(error) from error
        except BaseException:  # a cancellation: nobody will use it
            if transport is not None:
                link.lose(ConnectionError("closed"))
            raise
        self._link = link
        self._links.add(link)
        self._has_answered = True
        return link

    def _unreachable(self, error: BaseException) -> Exception:
        return refusals.unreachable(
            error, where=self._where, endpoint=self.endpoint, has_answered=self._has_answered
        )

    def _lose(self, link: Link) -> None:
        if link in self._links and self._link is link:
            self._link = None
            self._lost(self)
        if not link.is_open:
            self._links.discard(link)

    # -- watching ----------------------------------------------------------------------

    async def watch(
        self,
        path: bytes,
        hear: Callable[[bytes], None],
        *,
        token: bytes,
        connect_by: float,
    ) -> Watching:
        """Return a stream that was begun."""
        link = self._link
        if link is None or not link.is_open:
            link = await self._connected(connect_by)
        begins = self._head(path, token=token, needs_leader=True)
        return Watching(link, begins, hear, clock=self._clock)

    # -- closing -----------------------------------------------------------------------

    def leave(self) -> None:
        """Let no connection that was made before be used again."""
        for link in list(self._links):
            link.lose(ConnectionError("closed"))

    async def close(self) -> None:
        """Close the connection."""
        await self._connecting.end()
        if self._links:
            self.leave()
            await asyncio.sleep(0)  # the transport closes its socket in the loop's next turn

    def after_fork_in_child(self) -> None:
        """Leave the parent's connection alone."""
        forking.leak(self._links)
        self._link, self._links = None, set()
        self._connecting.after_fork_in_child()
