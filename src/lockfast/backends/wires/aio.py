"""The wire of the asyncio flavour: one multiplexed connection; `threads` is its pair.

The commands of tasks that ask in one turn of the loop go out together; replies are matched
in order. A request that was cancelled or timed out keeps its place in the queue,
and its reply is read and dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lockfast._async.single_flight import AsyncSingleFlight
from lockfast.backends.wires.failures import unanswered
from lockfast.backends.wires.parsing import MORE, UNREADABLE, Gibberish, Misread, misbehaved
from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import forking
from lockfast.runtime.looking import LOOK_FOR, LOOKS, Looking
from lockfast.runtime.timing import OneTimer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from lockfast.backends.wires.parsing import Parser
    from lockfast.runtime.clock import Clock

__all__ = ["SocketLink", "SocketWire"]

AT_ONCE = 16
"""As many requests of one turn of the loop go out together: the server has something to do then
while the other tasks still write theirs."""

SILENCE = 0.2
"""A link that was silent for less is not taken for cut: no packet that got lost is sent again
sooner (Linux's least retransmission timeout), and a request may be given less time than a
round trip takes. Then only that request fails; the others on the link have time left."""


class Waiting(Protocol):
    """Who gets a reply: a future, or what is one to the link and gets the replies of many."""

    def done(self) -> bool:
        """Whether nobody waits for it any more."""
        ...

    def set_result(self, reply: Any, /) -> None:  # noqa: ANN401 - the protocol's
        """Take the reply."""
        ...

    def set_exception(self, error: LockError, /) -> None:
        """Take it that none comes."""
        ...


class SocketLink(asyncio.Protocol):
    """One connection; times are the loop's."""

    _peculiar: type | None = None
    """What is not given to whoever waits for the next answer, but taken by `_take`."""

    def __init__(self, parser: Parser, *, where: str) -> None:
        self.where = where
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._parser = parser
        self._outbox: list[bytes] = []
        # Of each request that was sent, or will be in this turn of the loop, in three columns: who
        # waits, until when, and, if it was sent, since when. An object for each would be one more
        # that the garbage collector looks at, for each of a thousand tasks.
        self._waiting: deque[Waiting] = deque()
        self._deadlines: deque[float] = deque()
        self._sent_at: deque[float] = deque()
        self._heard_at = 0.0
        self._looking = Looking()
        self._timer = OneTimer(self._look)
        self._transport: asyncio.Transport

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return not self.lost.done()

    @property
    def owed(self) -> int:
        """How many replies are still to come, also those that nobody waits for any more."""
        return len(self._waiting)

    def send(self, request: bytes, *, deadline: float) -> asyncio.Future[Any]:
        """Return the future of the reply; it fails with OutcomeUnknown."""
        reply: asyncio.Future[Any] = self._loop.create_future()
        self.send_for(reply, request, deadline=deadline)
        return reply

    def send_for(self, reply: Waiting, request: bytes, *, deadline: float) -> None:
        """Send a request whose reply is given to that one."""
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(request)
        self._waiting.append(reply)
        self._deadlines.append(deadline)
        self._timer.at(deadline)

    def ask(self, request: bytes, patience: float) -> asyncio.Future[Any]:
        """As `send`, for so many seconds, and at once where there is no use in gathering more."""
        # All in one frame: every acquire and every release passes here.
        loop, outbox, waiting = self._loop, self._outbox, self._waiting
        deadline = loop.time() + patience
        reply: asyncio.Future[Any] = asyncio.Future(loop=loop)
        outbox.append(request)
        waiting.append(reply)
        self._deadlines.append(deadline)
        if deadline < self._timer.moment:
            self._timer.at(deadline)
        if len(waiting) == 1:
            # Nobody else waits for an answer: most likely there is only this one task.
            self._flush()
            if self._looking.sleeps:
                self._looking.sleeps -= 1
            else:
                self._linger(reply, deadline - patience + LOOK_FOR, LOOKS)
        elif len(outbox) == 1:
            loop.call_soon(self._flush)
        elif len(outbox) >= AT_ONCE:
            self._flush()
        return reply

    def _linger(self, reply: Waiting, until: float, looks: int) -> None:
        """Keep the loop from going to sleep, for as long as a server nearby takes to answer."""
        if not self._waiting or self._waiting[0] is not reply:
            self._looking.found()
        elif looks and self._loop.time() < until:
            self._loop.call_soon(self._linger, reply, until, looks - 1)
        else:
            self._looking.was_in_vain()

    def send_unanswered(self, request: bytes) -> None:
        """Send what has no reply of its own."""
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(request)

    def _flush(self) -> None:
        if self._outbox and self.is_open:
            unsent = len(self._waiting) - len(self._sent_at)
            self._sent_at.extend([self._loop.time()] * unsent)
            self._transport.write(b"".join(self._outbox))
        self._outbox.clear()

    def data_received(self, data: bytes) -> None:
        """Give the replies to those who wait for them."""
        self._heard_at = self._loop.time()
        parser, peculiar = self._parser, self._peculiar
        waiting, deadlines, sent_at = self._waiting, self._deadlines, self._sent_at
        try:
            parser.feed(data)
            while (reply := parser.next()) is not MORE:
                if reply.__class__ is peculiar or not sent_at:
                    self._take(reply)
                else:
                    deadlines.popleft()
                    sent_at.popleft()
                    if not (asked := waiting.popleft()).done():
                        asked.set_result(reply)
        except (Gibberish, Misread, *UNREADABLE) as error:
            self._lose(error)

    def _take(self, reply: Any) -> None:  # noqa: ANN401 - the protocol's
        """Do with a peculiar one what it is for, or with one that nobody waits for."""
        self._answer(reply)

    def _answer(self, reply: Any) -> None:  # noqa: ANN401 - as above
        if not self._sent_at:
            self._lose(Gibberish(repr(reply)[:40]))
            return
        self._deadlines.popleft()
        self._sent_at.popleft()
        if not (asked := self._waiting.popleft()).done():
            asked.set_result(reply)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell all who wait."""
        self._lose(exc or ConnectionError("the server closed the connection"))

    def _lose(self, error: BaseException) -> None:
        if self.lost.done():
            return
        self.lost.set_result(None)
        self._transport.abort()
        self._timer.cancel()
        for number, one in enumerate(self._waiting):
            if not one.done():
                # What cannot be read answers the first of them; of the others nobody knows.
                is_misread = number == 0 and bool(self._sent_at) and _is_unreadable(error)
                one.set_exception(self._misread(error) if is_misread else self._unanswered(error))
        for column in (self._waiting, self._deadlines, self._sent_at, self._outbox):
            column.clear()

    def _misread(self, error: BaseException) -> LockError:
        found = misbehaved(*error.args[:1], where=self.where)
        found.__cause__ = error
        return found

    def _unanswered(self, error: BaseException) -> LockError:
        return unanswered(error, where=self.where)

    def _look(self) -> None:
        now = self._loop.time()
        all_of_them = zip(self._waiting, self._deadlines, strict=True)
        for one in [one for one, deadline in all_of_them if deadline <= now and not one.done()]:
            one.set_exception(self._unanswered(TimeoutError("no answer in time")))
        moments = [one for one in self._deadlines if one > now]
        # Those who are late keep their places, so the first of them tells how long it lasts.
        unheard = (
            sent_at
            for sent_at, deadline in zip(self._sent_at, self._deadlines, strict=False)
            if deadline <= now and sent_at >= self._heard_at
        )
        silent_since = next(unheard, None)
        if silent_since is not None:
            if now >= silent_since + SILENCE:
                # Not a byte since it was sent: the way is cut, and would stay so for as long
                # as the kernel repeats its packets. A new connection may find another way.
                self._lose(TimeoutError("no answer in time"))
                return
            moments.append(silent_since + SILENCE)
        if moments:
            self._timer.at(min(moments))

    def close(self) -> None:
        """Let go of the connection."""
        self._lose(ConnectionError("closed"))

    def leak(self) -> None:
        """Leave the connection to the parent process, which still uses it."""
        forking.leak(self)


def _is_unreadable(error: BaseException) -> bool:
    return bool(error.args) and isinstance(error, (Gibberish, *UNREADABLE))


L = TypeVar("L", bound=SocketLink)


class SocketWire(Generic[L]):
    """The way to one server. A store says how a link is made, and what a failure of that means."""

    def __init__(self, *, clock: Clock, where: str) -> None:
        self.where = where
        self._clock = clock
        self._has_answered = False
        """Whether a connection was ever made: then the address is right."""
        self._link: L | None = None
        self._connecting = AsyncSingleFlight[L](clock)

    def ask(self, request: bytes, *, deadline: float, ahead: bytes = b"") -> Awaitable[Any]:
        """Return the reply to one command, which may be a refusal; to be awaited at once.

        The one that is sent ahead of it, if any, is answered too, and nobody hears of that.
        Raises BackendUnavailable if nothing was sent, OutcomeUnknown if no reply came.
        """
        link = self._link
        if link is None or link.lost.done():
            return self._connect_and_ask(request, deadline)
        if ahead:
            link.send(ahead, deadline=self._loop_time(deadline)).cancel()
        # The future itself: a task that is woken goes through all that stands in between.
        return link.ask(request, deadline - self._clock.now())

    async def _connect_and_ask(self, request: bytes, deadline: float) -> Any:  # noqa: ANN401
        link = await self._connected(deadline)
        return await link.send(request, deadline=self._loop_time(deadline))

    async def ask_all(self, requests: Sequence[bytes], *, deadline: float) -> list[Any]:
        """Return the replies to several commands, sent together; an error for each that is lost."""
        link = await self._connected(deadline)
        moment = self._loop_time(deadline)
        replies = [link.send(one, deadline=moment) for one in requests]
        return await asyncio.gather(*replies, return_exceptions=True)

    def _loop_time(self, deadline: float) -> float:
        return asyncio.get_running_loop().time() + deadline - self._clock.now()

    async def _connected(self, deadline: float) -> L:
        if self._link is not None and self._link.is_open:
            return self._link
        if deadline <= self._clock.now():
            raise BackendUnavailable(f"{self.where}: there was no time left to connect")
        # All who ask meanwhile wait for the same attempt; none of them can cancel it.
        connecting = await self._connecting.fly(
            partial(self._connect_for_all, deadline), deadline=deadline
        )
        if connecting.is_known:
            return connecting.result()
        if connecting.is_cut_off:
            raise BackendUnavailable(f"{self.where}: closed before there was a connection")
        raise self._unreachable(TimeoutError("no connection in time"))

    async def _connect_for_all(self, deadline: float) -> L:
        self._link = link = await self._connect(deadline)
        self._has_answered = True
        return link

    async def _connect(self, deadline: float) -> L:
        """Return a new link, or raise what `_unreachable` says."""
        raise NotImplementedError

    def _unreachable(self, error: BaseException) -> LockError:
        """Return the error behind a connection that could not be made."""
        raise NotImplementedError

    # -- closing -----------------------------------------------------------------------

    def leave(self) -> None:
        """Let no connection that was made before be used again, nor listened to."""
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._connecting.end()
        if self._link is not None:
            self._link.close()
            self._link = None
            await asyncio.sleep(0)  # the transport closes its socket in the loop's next turn

    def after_fork_in_child(self) -> None:
        """Leave the parent's connection alone."""
        if self._link is not None:
            self._link.leak()
        self._link = None
        self._connecting.after_fork_in_child()
