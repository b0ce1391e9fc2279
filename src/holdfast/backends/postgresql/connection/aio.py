"""The connections of the asyncio flavour: the loop reads for all; `threads` is its pair.

A few connections, each used by one request at a time. A request that is not answered in time,
or is cancelled, closes its connection: the next answer on it would belong to somebody else.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg import Error

from holdfast.backends.postgresql import refusals
from holdfast.backends.postgresql.greeting import GREETING, Greeting
from holdfast.backends.postgresql.link.aio import Link
from holdfast.backends.postgresql.subscription.aio import Subscription
from holdfast.backends.postgresql.transaction import Transaction
from holdfast.backends.sql.steps import Ask
from holdfast.core.backoff import delay
from holdfast.errors import BackendUnavailable, LockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

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
        self._links: weakref.WeakSet[Link] = weakref.WeakSet()
        self._idle: list[Link] = []
        self._waiting: deque[asyncio.Future[None]] = deque()

    # -- asking ------------------------------------------------------------------------

    async def ask(self, statement: str, values: Sequence[object] = (), *, deadline: float) -> Rows:
        """Return the rows of one statement, which is committed when they are here.

        Raises BackendUnavailable if nothing was done, OutcomeUnknown if it may have been.
        """
        [rows] = await self.ask_all([Ask(statement, values)], deadline=deadline)
        return rows

    async def ask_all(self, requests: Sequence[Ask], *, deadline: float) -> list[Rows]:
        """Return the rows of several, done together or not at all, in one round trip."""
        return await self._patiently(
            lambda link: link.exchange(requests, deadline=deadline), deadline
        )

    async def transact(self, begin: Callable[[], Steps[T]], *, deadline: float) -> T:
        """Do the steps in one transaction, anew if the server rolls it back for another's sake."""
        return await self._patiently(lambda link: self._do(link, begin(), deadline), deadline)

    async def _do(self, link: Link, steps: Steps[T], deadline: float) -> T:
        transaction = Transaction(steps)
        try:
            while (requests := transaction.requests()) is not None:
                transaction.answered(await link.exchange(requests, deadline=deadline))
        except Error:
            await self._roll_back(link, transaction, deadline)
            raise
        except BaseException:
            # What the steps refuse, or a cancellation in the middle.
            if transaction.has_begun:
                link.close()
            raise
        finally:
            steps.close()
        return transaction.outcome

    async def _roll_back(self, link: Link, transaction: Transaction[Any], deadline: float) -> None:
        if not (link.is_open and transaction.has_begun):
            return
        try:
            await link.exchange([Ask("ROLLBACK")], deadline=deadline)
        except (Error, OSError):
            link.close()  # which ends it as well

    async def _patiently(self, work: Callable[[Link], Awaitable[T]], deadline: float) -> T:
        attempt = 0
        while True:
            link = await self._take(deadline)
            try:
                answer = await work(link)
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
            await asyncio.sleep(pause)

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

    async def _take(self, deadline: float) -> Link:
        while True:
            if self._idle:
                link = self._idle.pop()
                if link.is_open:
                    return link
                self._discard(link)
            elif len(self._links) < self._most:
                link = Link(clock=self._clock, where=self.where)
                self._links.add(link)
                return await self._connected(link, deadline)
            else:
                await self._turn(deadline)

    async def _turn(self, deadline: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        left = deadline - self._clock.now()
        try:
            done, _ = await asyncio.wait([turn], timeout=max(0.0, left))
        except BaseException:
            if turn.done():
                self._tell_next()  # it was for us, and we go
            raise
        finally:
            if not turn.done():
                turn.cancel()
                with suppress(ValueError):
                    self._waiting.remove(turn)
        if not done:
            raise BackendUnavailable(f"{self.where}: no connection was free in time")

    async def _connected(self, link: Link, deadline: float) -> Link:
        if deadline <= self._clock.now():
            self._discard(link)
            raise refusals.no_time(where=self.where)
        try:
            await link.connect(self._address, deadline=deadline)
            [[row]] = await link.exchange([Ask(GREETING)], deadline=deadline)
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
        if link in self._links:
            self._idle.append(link)
        else:
            link.close()  # the wire was closed meanwhile
        self._tell_next()

    def _discard(self, link: Link) -> None:
        link.close()
        self._links.discard(link)
        self._tell_next()

    def _tell_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def give_back(self) -> float | None:
        """Close what nobody used for a while; return when to look again, None if never."""
        now = self._clock.now()
        for one in [one for one in self._idle if now - one.used_at >= IDLE]:
            self._idle.remove(one)
            self._discard(one)
        oldest = min((one.used_at for one in self._idle), default=None)
        return None if oldest is None else oldest + IDLE

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._links)

    # -- listening ---------------------------------------------------------------------

    async def subscribe(
        self, channel: str, hear: Callable[[str], None], *, deadline: float
    ) -> Subscription:
        """Return a subscription to the channel, on a connection of its own.

        Raises NoPush where notifications do not come through: behind a pooler that
        gives the connection to others between two transactions.
        """
        link = Link(clock=self._clock, where=self.where)
        try:
            await self._connected(link, deadline)
            subscription = Subscription(link, channel, hear, clock=self._clock)
            await subscription.begin(deadline=deadline)
            proof = (channel, subscription.proof)
            await self.ask("SELECT pg_notify($1, $2)", proof, deadline=deadline)
            await subscription.prove(deadline=deadline)
        except (Error, OSError) as error:
            link.close()
            raise refusals.unreachable(error, where=self.where) from error
        except BaseException:
            link.close()
            raise
        return subscription

    # -- closing -----------------------------------------------------------------------

    async def close(self) -> None:
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
