"""The way to one server: what is asked on a few connections, whatever the store.

Each connection is used by one request at a time. A request that is not answered in time, is
cancelled or interrupted, closes its connection: the next answer on it would belong to somebody
else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from lockfast.backends.sql import refusals as sentences
from lockfast.backends.sql.pool import links
from lockfast.backends.sql.pool.aio import Pool
from lockfast.backends.sql.round_trips import RoundTrips
from lockfast.backends.sql.turns import Turn
from lockfast.core.backoff import delay
from lockfast.errors import BackendUnavailable, LockError, OutcomeUnknown
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lockfast.backends.sql.refusals import Refusals
    from lockfast.backends.sql.round_trips import Framing
    from lockfast.backends.sql.steps import Ask, Rows, Steps
    from lockfast.runtime.clock import Clock

MOST = 4
"""How many connections a client works on, if it is not told."""

IDLE = 30.0
"""A connection that nobody used for so long is given back."""


class AsyncLink(links.Link, Protocol):
    """One connection, on which something can be asked."""

    async def exchange(self, requests: Sequence[Ask], *, deadline: float) -> Sequence[Rows]:
        """Return the rows of each, all in one round trip, or raise the driver's error.

        An error of the server's leaves the connection as it was; after any other it is closed.
        """
        ...


L = TypeVar("L", bound="AsyncLink")
T = TypeVar("T")


class AsyncWire(Generic[L]):
    """At most so many connections, made when needed; a store says how, and what its errors mean.

    `errors` are those of its driver. Every request raises BackendUnavailable if nothing was
    done, and OutcomeUnknown if something may have been.

    Every request ends by its deadline. With a `request_timeout` it also has no more than that
    from the moment it gets its connection; see `turns`.
    """

    request_timeout: float | None = None

    def __init__(
        self,
        *,
        where: str,
        refusals: Refusals,
        errors: tuple[type[Exception], ...],
        framing: Framing,
        clock: Clock,
        most: int,
    ) -> None:
        self.where = where
        self.refusals = refusals
        self._errors = errors
        self._failures: tuple[type[Exception], ...] = (*errors, LockError)
        self._framing = framing
        self._clock = clock
        self._pool = Pool(
            self._unconnected, self._connect, where=where, clock=clock, most=most, idle=IDLE
        )

    def _unconnected(self) -> L:
        """Return a connection that is yet to be made."""
        raise NotImplementedError

    async def _connect(self, link: L, deadline: float) -> None:
        """Make it, and see to it that it can be used."""
        raise NotImplementedError

    # -- asking ------------------------------------------------------------------------

    async def ask(self, request: Ask, *, deadline: float, turn: Turn | None = None) -> Rows:
        """Return the rows of one statement, which is committed when they are here."""
        [rows] = await self.ask_all((request,), deadline=deadline, turn=turn)
        return rows

    async def ask_all(
        self, requests: Sequence[Ask], *, deadline: float, turn: Turn | None = None
    ) -> Sequence[Rows]:
        """Return the rows of several, done together or not at all, in one round trip."""
        return await self._patiently(
            lambda link, until: self._as_one(link, requests, until), deadline, turn
        )

    async def transact(
        self, begin: Callable[[], Steps[T]], *, deadline: float, turn: Turn | None = None
    ) -> T:
        """Do the steps in one transaction, anew if the server rolls it back for another's sake."""

        def trips(framing: Framing) -> RoundTrips[T]:
            return RoundTrips(begin(), begin=framing.begin, commit=framing.commit)

        return await self._patiently(
            lambda link, until: self._do(link, trips(self._framing_of(link)), until), deadline, turn
        )

    async def look(self, begin: Callable[[], Steps[T]], *, deadline: float) -> T:
        """Do steps that write nothing, without a transaction."""

        def trips() -> RoundTrips[T]:
            return RoundTrips(begin(), begin=(), commit=())

        return await self._patiently(lambda link, until: self._do(link, trips(), until), deadline)

    def _framing_of(self, link: L) -> Framing:
        """Return how a transaction on this connection begins and ends."""
        del link
        return self._framing

    async def _as_one(self, link: L, requests: Sequence[Ask], deadline: float) -> Sequence[Rows]:
        framing = self._framing_of(link)
        opening, closing = framing.opening, framing.closing
        if not opening or (len(requests) == 1 and not framing.frames_one):
            return await link.exchange(requests, deadline=deadline)
        try:
            answers = await link.exchange([*opening, *requests, *closing], deadline=deadline)
        except self._errors:
            await self._roll_back(link, deadline)
            raise
        return answers[len(opening) : len(opening) + len(requests)]

    async def _do(self, link: L, trips: RoundTrips[T], deadline: float) -> T:
        try:
            while (requests := trips.next()) is not None:
                if trips.has_begun or not self._framing_of(link).frames_one:
                    trips.answered(await link.exchange(requests, deadline=deadline))
                else:
                    trips.answered(await self._as_one(link, requests, deadline))
        except self._errors as error:
            if trips.has_begun:
                await self._roll_back(link, deadline)
            if not trips.is_committing and self._is_in_doubt(error):
                # The server rolls back what it was not told to commit.
                raise sentences.undone(self.refusals.words_of(error), where=self.where) from error
            raise
        except Exception:
            # What the steps refuse, or there was no time left.
            if trips.has_begun:
                await self._roll_back(link, deadline)
            raise
        finally:
            trips.close()
        return trips.outcome

    def _is_in_doubt(self, error: Exception) -> bool:
        return isinstance(self.refusals.refused(error, where=self.where), OutcomeUnknown)

    async def _roll_back(self, link: L, deadline: float) -> None:
        if not link.is_open:
            return
        try:
            await link.exchange(self._framing_of(link).roll_back, deadline=deadline)
        except self._failures:
            link.close()  # which ends it as well

    async def _patiently(
        self,
        work: Callable[[L, float], Awaitable[T]],
        deadline: float,
        turn: Turn | None = None,
    ) -> T:
        attempt = 0
        refusal: LockError | None = None
        turn = turn or Turn(self.request_timeout)
        while True:
            turn.wait()
            try:
                link = await self._pool.take(deadline, turn)
            except BackendUnavailable:
                if refusal is None or self._clock.now() < turn.until:
                    raise
                # The server did answer: that its refusal left no time to connect again is not why.
                raise refusal from refusal.__cause__
            try:
                answer = await work(link, turn.until)
            except self._errors as error:
                pause = self._pause(error, attempt)
                again_at = self._clock.now() + pause
                is_late = again_at >= turn.until
                refusal = self.refusals.refused(error, where=self.where)
                refusal.__cause__ = error
                if is_late or not self._may_repeat(error, link):
                    raise refusal from error
            except Exception:
                raise  # nothing of it is open any more
            except BaseException:
                # A cancellation or an interrupt, who knows where: what the transaction has done
                # must not be committed by whoever begins the next one.
                link.close()
                raise
            else:
                return answer
            finally:
                self._pool.put_back(link)
            attempt += 1
            turn.give_way(again_at)
            await runtime.sleep(pause)

    def _may_repeat(self, error: Exception, _link: L) -> bool:
        return self.refusals.may_repeat(error)

    def _pause(self, _error: Exception, attempt: int) -> float:
        return delay(attempt, jitter=self._clock.jitter()) / 50

    # -- connections -------------------------------------------------------------------

    @property
    def connections(self) -> int:
        """How many there are."""
        return self._pool.size

    def give_back(self) -> float | None:
        """Close what nobody used for a while; return when to look again, None if never."""
        return self._pool.give_back()

    async def close(self) -> None:
        """Close every connection: now, or when its request has ended."""
        self._pool.close()

    def after_fork_in_child(self) -> None:
        """Begin with nothing of the parent's."""
        self._pool.after_fork_in_child()
