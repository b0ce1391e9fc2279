"""The connections of the asyncio flavour; `threads` is its pair.

A few connections, each used by one request at a time. A request that is not answered in time,
or is cancelled, closes its connection: the next answer on it would belong to somebody else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.backends.mysql import refusals
from holdfast.backends.mysql.link.aio import DriverError, Link
from holdfast.backends.mysql.session import BEGIN, COMMIT, GREETING, IDLE, ROLLBACK, check_greeting
from holdfast.backends.sql.pool.aio import Pool
from holdfast.backends.sql.round_trips import RoundTrips
from holdfast.core.backoff import delay
from holdfast.errors import BackendUnavailable, LockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.backends.mysql.addresses import Address
    from holdfast.backends.sql.steps import Ask, Rows, Steps
    from holdfast.runtime.clock import Clock

__all__ = ["MOST", "Wire"]

T = TypeVar("T")

MOST = 4
"""How many connections a client works on."""


class Wire:
    """The way to one server: at most so many connections, made when needed."""

    def __init__(self, address: Address, *, clock: Clock, most: int = MOST) -> None:
        self.where = address.where
        self._address = address
        self._clock = clock
        self._pool = Pool(
            self._unconnected,
            self._connect,
            where=address.where,
            clock=clock,
            most=most,
            # Before the server ends it: a request that crosses its goodbye would be lost.
            idle=IDLE * 0.75,
        )

    # -- asking ------------------------------------------------------------------------

    async def ask(self, request: Ask, *, deadline: float) -> Rows:
        """Return the rows of one statement, which is committed when they are here.

        Raises BackendUnavailable if nothing was done, OutcomeUnknown if it may have been.
        """

        async def work(link: Link) -> Rows:
            [rows] = await link.exchange([request], deadline=deadline)
            return rows

        return await self._patiently(work, deadline)

    async def transact(self, begin: Callable[[], Steps[T]], *, deadline: float) -> T:
        """Do the steps in one transaction, anew if the server rolls it back for another's sake."""

        def trips() -> RoundTrips[T]:
            return RoundTrips(begin(), begin=BEGIN, commit=COMMIT)

        return await self._patiently(lambda link: self._do(link, trips(), deadline), deadline)

    async def look(self, begin: Callable[[], Steps[T]], *, deadline: float) -> T:
        """Do steps that write nothing, each statement by itself."""

        def trips() -> RoundTrips[T]:
            return RoundTrips(begin(), begin=(), commit=())

        return await self._patiently(lambda link: self._do(link, trips(), deadline), deadline)

    async def _do(self, link: Link, trips: RoundTrips[T], deadline: float) -> T:
        try:
            while (requests := trips.next()) is not None:
                trips.answered(await link.exchange(requests, deadline=deadline))
        except DriverError as error:
            if not refusals.is_answer(error):
                if trips.is_committing:
                    raise
                # The server rolls back what it was not told to commit.
                raise refusals.undone(error, where=self.where) from error
            await self._roll_back(link, trips, deadline)
            raise
        except Exception:
            # What the steps refuse, or there was no time left.
            await self._roll_back(link, trips, deadline)
            raise
        return trips.outcome

    async def _roll_back(self, link: Link, trips: RoundTrips[Any], deadline: float) -> None:
        if not (trips.has_begun and link.is_open):
            return
        try:
            await link.exchange(ROLLBACK, deadline=deadline)
        except (DriverError, LockError):
            link.close()  # which ends it as well

    async def _patiently(self, work: Callable[[Link], Awaitable[T]], deadline: float) -> T:
        attempt = 0
        while True:
            link = await self._pool.take(deadline)
            try:
                answer = await work(link)
            except DriverError as error:
                if not refusals.is_answer(error):
                    raise refusals.unanswered(error, where=self.where) from error
                pause = delay(attempt, jitter=self._clock.jitter()) / 50
                is_late = self._clock.now() + pause >= deadline
                if refusals.code_of(error) not in refusals.REPEAT or is_late:
                    raise refusals.refused(error, where=self.where) from error
            except Exception:
                raise  # nothing of it is open any more
            except BaseException:
                # A cancellation, who knows where: what the transaction has done must not be
                # committed by whoever begins the next one.
                link.close()
                raise
            else:
                return answer
            finally:
                self._pool.put_back(link)
            attempt += 1
            await asyncio.sleep(pause)

    # -- connections -------------------------------------------------------------------

    def _unconnected(self) -> Link:
        return Link(clock=self._clock, where=self.where)

    async def _connect(self, link: Link, deadline: float) -> None:
        try:
            await link.connect(self._address, deadline=deadline)
            answers = await link.exchange(GREETING, deadline=deadline)
        except LockError:
            raise
        except TimeoutError as error:
            raise BackendUnavailable(f"{self.where} did not answer in time") from error
        except Exception as error:
            # Whatever the driver makes of it: a stranger at that port may say anything.
            raise refusals.unreachable(error, where=self.where) from error
        check_greeting(answers, where=self.where)

    @property
    def connections(self) -> int:
        """How many there are."""
        return self._pool.size

    async def close(self) -> None:
        """Close every connection: now, or when its request has ended."""
        self._pool.close()
        # The loop closes the sockets in its next turns, and may be about to end.
        for _ in range(3):
            await asyncio.sleep(0)

    def after_fork_in_child(self) -> None:
        """Begin with nothing of the parent's."""
        self._pool.after_fork_in_child()
