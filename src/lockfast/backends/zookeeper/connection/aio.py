"""The way to an ensemble, asyncio flavour: answers wake the loop; `threads` is its pair."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kazoo.protocol.states import KazooState

from lockfast.backends.sessions.refusals import ended
from lockfast.backends.zookeeper import driver, refusals
from lockfast.backends.zookeeper.answers import Slot, Told, checked
from lockfast.backends.zookeeper.queueing import send
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockfast.backends.zookeeper.answers import Answer
    from lockfast.runtime.clock import Clock

__all__ = ["Connection"]


class Flight:
    """Requests that went out together; told once, when the last answer is in."""

    __slots__ = ("_landed", "_loop", "_missing", "answers", "over")

    def __init__(self, size: int) -> None:
        self.answers: list[Answer] = [None] * size
        self._landed: set[int] = set()
        self._missing = size
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()

    def land(self, number: int, answer: Answer) -> None:
        """Keep an answer; on kazoo's thread, or on the caller's if kazoo refuses at once."""
        if number in self._landed:
            return
        self.answers[number] = answer
        self._landed.add(number)
        if len(self._landed) == self._missing:
            try:
                self._loop.call_soon_threadsafe(_finish, self.over)
            except RuntimeError:
                # The loop is closed: nobody waits any more.
                return

    @property
    def is_complete(self) -> bool:
        """Whether every answer is there."""
        return len(self._landed) == self._missing


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class Connection:
    """One session's connection: made once, lost and made anew by kazoo, over when it is over.

    `changed` is called on kazoo's thread when the connection is lost or made again, and when
    the session is over.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        ttl: float,
        clock: Clock,
        where: str,
        changed: Callable[[], None],
    ) -> None:
        self.where = where
        self.is_over: bool = False
        self.is_connected: bool = False
        self._clock = clock
        self._changed = changed
        self._client, self._trouble = driver.new_client(options, ttl=ttl)
        self.greeting: driver.Greeting = driver.Greeting(self._client, clock)
        driver.tell_when_entered(self._client, self._trouble, self._enter)
        self._client.add_listener(self._listen)
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def session_id(self) -> int:
        """Who we are, as the nodes of this session say."""
        return int(self._client._session_id or 0)  # noqa: SLF001

    async def connect(self, *, deadline: float) -> None:
        """Open the session."""
        try:
            driver.start(self._client, seconds=deadline - self._clock.now())
        except (OSError, RuntimeError) as cause:
            # No file or no thread is to be had.
            raise refusals.unreachable(cause, where=self.where) from cause
        await self._state_change(deadline)
        if not self.is_connected:
            error = refusals.unreachable(self._trouble.last, where=self.where)
            raise error from self._trouble.last

    async def ask(self, *requests: Any, deadline: float) -> list[Answer]:  # noqa: ANN401
        """Return the answers, in order; a no is an answer.

        Raises BackendUnavailable if nothing was sent, SessionEnded if nothing of it can
        last, OutcomeUnknown if an answer is missing.
        """
        if not self.is_connected:
            await self._state_change(deadline)
        self._refuse_unusable()
        flight = Flight(len(requests))
        send(self._client, [(one, Slot(flight, number)) for number, one in enumerate(requests)])
        timer = self._loop.call_later(max(0.0, deadline - self._clock.now()), _finish, flight.over)
        try:
            await flight.over
        finally:
            timer.cancel()
        return checked(flight.answers, is_complete=flight.is_complete, where=self.where)

    def tell(self, request: Any, heard: Callable[[Answer], None]) -> None:  # noqa: ANN401
        """Send a request for whose answer nobody waits; `heard` gets it on kazoo's thread."""
        send(self._client, [(request, Told(heard))])

    def hang_up(self) -> None:
        """Cut the connection, so that another one is tried: this one does not answer."""
        driver.hang_up(self._client)

    async def close(self, *, goodbye: bool, deadline: float) -> None:
        """End the connection; without a goodbye the session stays until its time is over."""
        can_be_heard, self.is_connected = self.is_connected, False
        if goodbye and can_be_heard:
            driver.say_goodbye(self._client)
            await self._ended(deadline)
        driver.stop_here(self._client)
        driver.hang_up(self._client)
        await self._ended(self._clock.now() + 2 * driver.CONNECT)
        self.is_over = True
        if driver.wait_for_end(self._client, 0.0):
            driver.finish(self._client)

    def leak(self) -> None:
        """Leave the connection to the parent process, which still uses it."""
        self.is_over = True
        self.is_connected = False
        forking.leak(self._client)

    # -- kazoo's thread ----------------------------------------------------------------

    def _listen(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            return  # not before it has shown all credentials
        self.is_connected = False
        if state == KazooState.LOST:
            self.is_over = True
            driver.stop_here(self._client)
        self._tell()

    def _enter(self) -> None:
        self.is_connected = True
        self._tell()

    def _tell(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tell_waiting)
        except RuntimeError:
            # The loop is closed: nobody waits any more.
            return
        self._changed()

    # -- waiting -----------------------------------------------------------------------

    def _refuse_unusable(self) -> None:
        if self.is_over:
            raise ended(where=self.where)
        if not self.is_connected:
            last = self._trouble.last
            raise refusals.unreachable(last, where=self.where) from last

    def _tell_waiting(self) -> None:
        for future in self._waiting:
            _finish(future)

    async def _state_change(self, deadline: float) -> None:
        """Return when connected or over, or at the deadline."""
        while not (self.is_connected or self.is_over):
            left = min(deadline - self._clock.now(), self._clock.longest_sleep)
            if left <= 0:
                return
            await self._nap(left)

    async def _ended(self, deadline: float) -> None:
        """Return when kazoo's thread has left its work, or at the deadline."""
        while not driver.wait_for_end(self._client, 0.0):
            left = min(deadline - self._clock.now(), 0.003)
            if left <= 0:
                return
            await self._nap(left)

    async def _nap(self, seconds: float) -> None:
        future: asyncio.Future[None] = self._loop.create_future()
        timer = self._loop.call_later(seconds, _finish, future)
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)
            timer.cancel()
