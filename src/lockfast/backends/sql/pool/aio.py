"""The pool of the asyncio flavour; `threads` is its pair."""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.backends.sql.pool.links import Link, none_free
from lockfast.backends.sql.turns import Progress, Turn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.runtime.clock import Clock

__all__ = ["Pool"]

L = TypeVar("L", bound=Link)


class Pool(Generic[L]):
    """At most so many connections; whoever finds none free waits for its turn.

    Those who wait are served in the order in which they came, and before whoever comes later: a
    connection goes from hand to hand. Left to whoever is quickest, it would go to the one that has
    just put it back, and a few who ask without a pause would keep the renewals out.

    `make` returns one that is yet to be connected, and `connect` connects it by a deadline. One
    that nobody used for `idle` seconds is not used again: the server may be about to end it.
    """

    def __init__(
        self,
        make: Callable[[], L],
        connect: Callable[[L, float], Awaitable[None]],
        *,
        where: str,
        clock: Clock,
        most: int,
        idle: float,
    ) -> None:
        self._make = make
        self._connect = connect
        self._where = where
        self._clock = clock
        self._most = most
        self._idle_for = idle
        self._begin()

    def _begin(self) -> None:
        self._links: weakref.WeakSet[L] = weakref.WeakSet()
        self._idle: list[L] = []
        self._waiting: deque[asyncio.Future[L]] = deque()
        self._progress = Progress()

    async def take(self, deadline: float, turn: Turn | None = None) -> L:
        """Return a connection that is the caller's alone until it is put back.

        To connect is part of the request, and has to be done within the time of its turn.
        """
        turn = turn or Turn()
        while True:
            link = self._next() or await self._turn(deadline, turn.patience)
            until = turn.come(self._clock.now(), deadline=deadline)
            if not link.is_open:
                try:
                    await self._connect(link, until)
                except BaseException:
                    self._progress.failed(self._clock.now())
                    self.discard(link)
                    raise
                return link
            if self._clock.now() - link.used_at < self._idle_for and link.is_sound():
                return link
            self.discard(link)

    def _next(self) -> L | None:
        """Return an idle connection, or one that is yet to be made; None if there is no room."""
        if self._idle:
            return self._idle.pop()
        if len(self._links) >= self._most:
            return None
        link = self._make()
        self._links.add(link)
        return link

    async def _turn(self, deadline: float, patience: float | None) -> L:
        turn: asyncio.Future[L] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        since = now = self._clock.now()
        try:
            while not turn.done():
                ends_at = self._progress.ends_at(since=since, patience=patience, deadline=deadline)
                if now >= ends_at:
                    break
                # Nobody wakes those who wait when a request ahead fails: they look by themselves.
                left = ends_at - now if patience is None else min(ends_at - now, patience)
                await asyncio.wait([turn], timeout=left)
                now = self._clock.now()
        except BaseException:
            if turn.done():
                self.put_back(turn.result())  # it was for us, and we go
            raise
        finally:
            if not turn.done():
                turn.cancel()
                with suppress(ValueError):
                    self._waiting.remove(turn)
        if turn.cancelled():
            raise none_free(where=self._where)
        return turn.result()

    def put_back(self, link: L) -> None:
        """Let others have it; a closed one is forgotten."""
        link.used_at = self._clock.now()
        (self._progress.answered if link.is_open else self._progress.failed)(link.used_at)
        if not link.is_open or link.is_lent or link not in self._links:
            self.discard(link)  # or the pool was closed meanwhile
            return
        self._idle.append(link)
        self._serve()

    def discard(self, link: L) -> None:
        """Close it, and make room for another."""
        link.close()
        self._links.discard(link)
        self._serve()

    def _serve(self) -> None:
        """Give what there is to those who wait."""
        while self._waiting:
            turn = self._waiting[0]
            link = None if turn.done() else self._next()
            if link is not None:
                turn.set_result(link)
            elif not turn.done():
                return
            self._waiting.popleft()

    def give_back(self) -> float | None:
        """Close what nobody used for a while; return when to look again, None if never."""
        now = self._clock.now()
        for one in [one for one in self._idle if now - one.used_at >= self._idle_for]:
            self._idle.remove(one)
            self.discard(one)
        oldest = min((one.used_at for one in self._idle), default=None)
        return None if oldest is None else oldest + self._idle_for

    @property
    def size(self) -> int:
        """How many connections there are."""
        return len(self._links)

    def close(self) -> None:
        """Close every connection: now, or when its request has ended."""
        idle, self._idle = self._idle, []
        self._links = weakref.WeakSet()
        for one in idle:
            one.close()

    def after_fork_in_child(self) -> None:
        """Begin with nothing of the parent's."""
        links = list(self._links)
        self._begin()
        for one in links:
            one.disinherit()
