"""Connection to an ensemble, asyncio flavour: replies wake the loop.

Its counterpart is `connection_threads`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from kazoo.protocol.states import KazooState

from lockfast.backends.sessions.records import ended
from lockfast.backends.zookeeper import driver, errors
from lockfast.backends.zookeeper.requests import ReplyOrError, Slot, checked, send
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lockfast.backends.zookeeper.requests import KazooReply
    from lockfast.runtime.clock import Clock

__all__ = ["ZooKeeperConnection"]


class PendingRequests:
    """Requests that were sent together; it signals once, when the last reply has arrived."""

    __slots__ = ("_arrived", "_loop", "_missing", "answers", "over")

    def __init__(self, size: int) -> None:
        self.answers: list[KazooReply] = [None] * size
        self._arrived: set[int] = set()
        self._missing = size
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()

    def keep_reply(self, number: int, answer: KazooReply) -> None:
        """Keep a reply; called on kazoo's thread, or on the sender's if kazoo refuses at once."""
        if number in self._arrived:
            return
        self.answers[number] = answer
        self._arrived.add(number)
        if len(self._arrived) == self._missing:
            try:
                self._loop.call_soon_threadsafe(_finish, self.over)
            except RuntimeError:
                # The event loop is closed, so no task waits any more.
                return

    @property
    def is_complete(self) -> bool:
        """Whether every reply has arrived."""
        return len(self._arrived) == self._missing


def _finish(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class ZooKeeperConnection:
    """One session's connection: opened once, restored by kazoo when lost, and never reopened.

    `changed` is called on kazoo's thread when the connection is lost or restored, and when the
    session has ended.
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
        self.greeting: driver.DriverHandshake = driver.DriverHandshake(self._client, clock)
        driver.call_when_usable(self._client, self._trouble, self._enter)
        self._client.add_listener(self._listen)
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()

    async def connect(self, *, deadline: float) -> None:
        """Open the session."""
        try:
            driver.start(self._client, seconds=deadline - self._clock.now())
        except (OSError, RuntimeError) as cause:
            # There is no file descriptor or no thread left.
            raise errors.unreachable(cause, where=self.where) from cause
        await self._wait_until_settled(deadline)
        if not self.is_connected:
            error = errors.unreachable(self._trouble.last, where=self.where)
            raise error from self._trouble.last

    async def ask(self, *requests: Any, deadline: float) -> list[KazooReply]:  # noqa: ANN401
        """Return the replies, in order; a refusal is a reply.

        Raises BackendUnavailable if nothing was sent, SessionEnded if no effect of the requests can
        last, and OutcomeUnknown if a reply is missing.
        """
        if not self.is_connected:
            await self._wait_until_settled(deadline)
        self._refuse_unusable()
        flight = PendingRequests(len(requests))
        send(self._client, [(one, Slot(flight, number)) for number, one in enumerate(requests)])
        timer = self._loop.call_later(max(0.0, deadline - self._clock.now()), _finish, flight.over)
        try:
            await flight.over
        finally:
            timer.cancel()
        return checked(flight.answers, is_complete=flight.is_complete, where=self.where)

    def tell(self, request: Any, heard: Callable[[KazooReply], None]) -> None:  # noqa: ANN401
        """Send a request whose reply nobody waits for; `heard` gets it on kazoo's thread."""
        send(self._client, [(request, ReplyOrError(heard))])

    def hang_up(self) -> None:
        """Cut the connection, which does not answer, so that kazoo tries the next member."""
        driver.hang_up(self._client)

    async def close(self, *, goodbye: bool, deadline: float) -> None:
        """Close the connection; without a goodbye the session stays until it times out."""
        was_connected, self.is_connected = self.is_connected, False
        if goodbye and was_connected:
            driver.say_goodbye(self._client)
            await self._ended(deadline)
        driver.stop_reconnecting(self._client)
        driver.hang_up(self._client)
        await self._ended(self._clock.now() + 2 * driver.CONNECT_SECONDS)
        self.is_over = True
        if driver.wait_for_end(self._client, 0.0):
            driver.finish(self._client)

    def abandon_connection(self) -> None:
        """Abandon the connection in a forked child; the parent process still uses it."""
        self.is_over = True
        self.is_connected = False
        fork.abandon(self._client)

    # -- kazoo's thread ----------------------------------------------------------------

    def _listen(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            # The connection is not usable yet; `_enter` follows once all credentials are sent.
            return
        self.is_connected = False
        if state == KazooState.LOST:
            self.is_over = True
            driver.stop_reconnecting(self._client)
        self._tell()

    def _enter(self) -> None:
        self.is_connected = True
        self._tell()

    def _tell(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._tell_waiting)
        except RuntimeError:
            # The event loop is closed, so no task waits any more.
            return
        self._changed()

    # -- waiting -----------------------------------------------------------------------

    def _refuse_unusable(self) -> None:
        if self.is_over:
            raise ended(where=self.where)
        if not self.is_connected:
            last = self._trouble.last
            raise errors.unreachable(last, where=self.where) from last

    def _tell_waiting(self) -> None:
        for future in self._waiting:
            _finish(future)

    async def _wait_until_settled(self, deadline: float) -> None:
        """Return once connected, or once the session has ended, or at the deadline."""
        while not (self.is_connected or self.is_over):
            left = min(deadline - self._clock.now(), self._clock.longest_sleep)
            if left <= 0:
                return
            await self._nap(left)

    async def _ended(self, deadline: float) -> None:
        """Return when kazoo's thread has finished its work, or at the deadline."""
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
