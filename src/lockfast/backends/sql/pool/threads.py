"""The pool of the sync flavour; `aio` is its pair."""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.backends.sql.pool.links import Link, none_free
from lockfast.backends.sql.turns import Progress, Turn
from lockfast.runtime.threads import Event

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.runtime.clock import Clock

__all__ = ["Pool"]

L = TypeVar("L", bound=Link)

LOOK_AGAIN = 0.1
"""A connection that an interrupt took away is missed by whoever waits for it within so long."""

JUST_NOW = 0.001
"""One that was used so lately is not looked at: to look costs a call of the kernel, and what ends
it so soon might as well end it after the look."""


class Waiter(Generic[L]):
    """One who waits, and what was given to it."""

    def __init__(self) -> None:
        self.link: L | None = None
        self.has_come: Event = Event()


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
        connect: Callable[[L, float], None],
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
        self._state = threading.RLock()
        # Weakly: one that an interrupt took from its owner counts no more.
        self._links: weakref.WeakSet[L] = weakref.WeakSet()
        self._idle: list[L] = []
        self._waiting: deque[Waiter[L]] = deque()
        self._progress = Progress()

    def take(self, deadline: float, turn: Turn | None = None) -> L:
        """Return a connection that is the caller's alone until it is put back.

        To connect is part of the request, and has to be done within the time of its turn.
        """
        turn = turn or Turn()
        while True:
            with self._state:
                link = self._next()
            if link is None:
                link = self._turn(deadline, turn.patience)
            until = turn.come(self._clock.now(), deadline=deadline)
            if not link.is_open:
                try:
                    self._connect(link, until)
                except BaseException:  # an interrupt, or no way there: its place is free again
                    self._progress.failed(self._clock.now())
                    self.discard(link)
                    raise
                return link
            if self._is_usable(link):
                return link
            self.discard(link)

    def _next(self) -> L | None:
        """Return an idle connection, or one that is yet to be made; None if there is no room."""
        if self._idle:
            return self._idle.pop()
        if sum(one is not None for one in self._links) >= self._most:
            return None
        link = self._make()
        self._links.add(link)
        return link

    def _turn(self, deadline: float, patience: float | None) -> L:
        turn, since = Waiter[L](), self._clock.now()
        try:
            while self._given(turn) is None:
                ends_at = self._progress.ends_at(since=since, patience=patience, deadline=deadline)
                left = ends_at - self._clock.now()
                if left <= 0:
                    break
                turn.has_come.wait(min(left, LOOK_AGAIN))
        except BaseException:
            if turn.link is not None:
                self.put_back(turn.link)  # it was for us, and we go
            raise
        finally:
            with self._state, suppress(ValueError):
                self._waiting.remove(turn)
        if (link := turn.link) is None:
            raise none_free(where=self._where)
        return link

    def _is_usable(self, link: L) -> bool:
        idle = self._clock.now() - link.used_at
        return idle < self._idle_for and (idle < JUST_NOW or link.is_sound())

    def _given(self, turn: Waiter[L]) -> L | None:
        """Return what was given to the one who waits; None if it has to wait on."""
        with self._state:
            if turn.link is None and turn not in self._waiting:
                self._waiting.append(turn)
            self._serve()  # also what an interrupt took away, of which nobody tells
            return turn.link

    def put_back(self, link: L) -> None:
        """Let others have it; a closed one is forgotten."""
        link.used_at = self._clock.now()
        (self._progress.answered if link.is_open else self._progress.failed)(link.used_at)
        with self._state:
            # Not one that is closed or lent, nor where the pool was closed meanwhile.
            is_wanted = link.is_open and not link.is_lent and link in self._links
            if is_wanted:
                self._idle.append(link)
                self._serve()
        if not is_wanted:
            self.discard(link)

    def discard(self, link: L) -> None:
        """Close it, and make room for another."""
        link.close()
        with self._state:
            self._links.discard(link)
            self._serve()

    def _serve(self) -> None:
        """Give what there is to those who wait."""
        while self._waiting and (link := self._next()) is not None:
            turn = self._waiting.popleft()
            turn.link = link
            turn.has_come.set()

    def give_back(self) -> float | None:
        """Close what nobody used for a while; return when to look again, None if never."""
        now = self._clock.now()
        with self._state:
            old = [one for one in self._idle if now - one.used_at >= self._idle_for]
            self._idle = [one for one in self._idle if one not in old]
            oldest = min((one.used_at for one in self._idle), default=None)
        for one in old:
            self.discard(one)
        return None if oldest is None else oldest + self._idle_for

    @property
    def size(self) -> int:
        """How many connections there are."""
        return len(self._links)

    def close(self) -> None:
        """Close every connection: now, or when its call has ended."""
        with self._state:
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
