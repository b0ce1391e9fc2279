"""The connections of the sync flavour: blocking calls on the caller's thread; `aio` is its pair.

A few connections, each used by one call at a time. A call that is not answered in time, or is
interrupted, closes its connection: the next answer on it would belong to somebody else.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import Error

from holdfast.backends.postgresql import refusals
from holdfast.backends.postgresql.greeting import GREETING, Greeting
from holdfast.backends.postgresql.link.threads import Link
from holdfast.backends.postgresql.subscription.threads import Subscription
from holdfast.backends.postgresql.transaction import Transaction
from holdfast.backends.sql.steps import Ask
from holdfast.core.backoff import delay
from holdfast.errors import BackendUnavailable, LockError
from holdfast.runtime.threads import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.backends.postgresql.addresses import Address
    from holdfast.backends.postgresql.values import Rows
    from holdfast.backends.sql.steps import Steps
    from holdfast.runtime.clock import Clock

__all__ = ["MOST", "Wire"]

T = TypeVar("T")

MOST = 4
"""How many connections a client works on."""

IDLE = 30.0
"""A connection that nobody used for so long is given back."""

LOOK_AGAIN = 0.1
"""A connection that an interrupt took away is missed by whoever waits for it within so long."""


class Wire:
    """The way to one server: at most so many connections, made when needed."""

    def __init__(self, address: Address, *, clock: Clock, most: int = MOST) -> None:
        self.where = address.where
        self.greeting: Greeting | None = None
        self._address = address
        self._clock = clock
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._state = threading.Lock()
        # Weakly: one that an interrupt took from its owner counts no more.
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        self._idle: list[Link] = []
        self._waiting: deque[Event] = deque()
        self._generation = 0

    # -- asking ------------------------------------------------------------------------

    def ask(self, statement: str, values: Sequence[object] = (), *, deadline: float) -> Rows:
        """Return the rows of one statement, which is committed when they are here.

        Raises BackendUnavailable if nothing was done, OutcomeUnknown if it may have been.
        """
        [rows] = self.ask_all([Ask(statement, values)], deadline=deadline)
        return rows

    def ask_all(self, requests: Sequence[Ask], *, deadline: float) -> list[Rows]:
        """Return the rows of several, done together or not at all, in one round trip."""
        return self._patiently(lambda link: link.exchange(requests, deadline=deadline), deadline)

    def transact(self, begin: Callable[[], Steps[T]], *, deadline: float) -> T:
        """Do the steps in one transaction, anew if the server rolls it back for another's sake."""
        return self._patiently(lambda link: self._do(link, begin(), deadline), deadline)

    def _do(self, link: Link, steps: Steps[T], deadline: float) -> T:
        transaction = Transaction(steps)
        try:
            while (requests := transaction.requests()) is not None:
                transaction.answered(link.exchange(requests, deadline=deadline))
        except BaseException:
            self._roll_back(link, transaction, deadline)
            raise
        finally:
            steps.close()
        return transaction.outcome

    def _roll_back(self, link: Link, transaction: Transaction[Any], deadline: float) -> None:
        if not (link.is_open and transaction.has_begun):
            return
        try:
            link.exchange([Ask("ROLLBACK")], deadline=deadline)
        except (Error, OSError):
            link.close()  # which ends it as well

    def _patiently(self, work: Callable[[Link], T], deadline: float) -> T:
        attempt = 0
        while True:
            link = self._take(deadline)
            try:
                answer = work(link)
            except Error as error:
                if not self._may_repeat(error, link):
                    raise self._told(error, link) from error
            except OSError as error:
                raise refusals.unanswered(error, where=self.where) from error
            else:
                return answer
            finally:
                self._put_back(link)
            pause = delay(attempt, jitter=self._clock.jitter()) / 50
            attempt += 1
            if self._clock.now() + pause >= deadline:
                raise BackendUnavailable(f"{self.where}: others were in the way for too long")
            Event().wait(pause)

    def _may_repeat(self, error: Error, link: Link) -> bool:
        if error.sqlstate in refusals.FORGOTTEN and link.prepared is not None:
            link.prepared = None  # a pooler that did not look like one
            return True
        return error.sqlstate in refusals.REPEAT

    def _told(self, error: Error, link: Link) -> LockError:
        if error.sqlstate is None and not link.is_open:
            return refusals.unanswered(error, where=self.where)
        return refusals.refused(error, where=self.where)

    # -- connections -------------------------------------------------------------------

    def _take(self, deadline: float) -> Link:
        while True:
            link, turn = self._next()
            if link is not None and link.is_open:
                if link.is_sound():
                    return link
                link.close()
            elif link is not None:
                return self._connected(link, deadline)
            else:
                left = deadline - self._clock.now()
                if left <= 0:
                    raise BackendUnavailable(f"{self.where}: no connection was free in time")
                turn.wait(min(left, LOOK_AGAIN))

    def _next(self) -> tuple[Link | None, Event]:
        """Return an idle connection, or one that is yet to be made, or when to look again."""
        turn = Event()
        with self._state:
            if self._idle:
                return self._idle.pop(), turn
            if sum(one is not None for one in self._links) < self._most:
                link = Link(clock=self._clock, where=self.where)
                self._links.add(link)
                return link, turn
            self._waiting.append(turn)
        return None, turn

    def _connected(self, link: Link, deadline: float) -> Link:
        if deadline <= self._clock.now():
            self._discard(link)
            raise refusals.no_time(where=self.where)
        try:
            link.connect(self._address, deadline=deadline)
            [[row]] = link.exchange([Ask(GREETING)], deadline=deadline)
        except (Error, OSError) as error:
            self._discard(link)
            raise refusals.unreachable(error, where=self.where) from error
        except BaseException:
            self._discard(link)
            raise
        self.greeting = Greeting(link.connection.backend_pid, *row)
        link.prepared = None if self.greeting.is_pooled else set()
        return link

    def _put_back(self, link: Link) -> None:
        if not link.is_open:
            self._discard(link)
            return
        link.used_at = self._clock.now()
        with self._state:
            if link in self._links:
                self._idle.append(link)
            else:
                link.close()  # the wire was closed meanwhile
        self._tell_next()

    def _discard(self, link: Link) -> None:
        link.close()
        with self._state:
            self._links.discard(link)
        self._tell_next()

    def _tell_next(self) -> None:
        with suppress(IndexError):
            self._waiting.popleft().set()

    def give_back(self) -> float | None:
        """Close what nobody used for a while; return when to look again, None if never."""
        now = self._clock.now()
        with self._state:
            old = [one for one in self._idle if now - one.used_at >= IDLE]
            self._idle = [one for one in self._idle if one not in old]
            oldest = min((one.used_at for one in self._idle), default=None)
        for one in old:
            self._discard(one)
        return None if oldest is None else oldest + IDLE

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._links)

    # -- listening ---------------------------------------------------------------------

    def subscribe(
        self, channel: str, hear: Callable[[str], None], *, deadline: float
    ) -> Subscription:
        """Return a subscription to the channel, on a connection of its own.

        Raises NoPush where notifications do not come through: behind a pooler that
        gives the connection to others between two transactions.
        """
        link = Link(clock=self._clock, where=self.where)
        try:
            self._connected(link, deadline)
            subscription = Subscription(link, channel, hear, clock=self._clock)
            subscription.begin(deadline=deadline)
            self.ask("SELECT pg_notify($1, $2)", (channel, subscription.proof), deadline=deadline)
            subscription.prove(deadline=deadline)
        except (Error, OSError) as error:
            link.close()
            raise refusals.unreachable(error, where=self.where) from error
        except BaseException:
            link.close()
            raise
        return subscription

    # -- closing -----------------------------------------------------------------------

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
