"""The way to an ensemble, sync flavour: answers wake the thread that asks; `aio` is its pair."""

from __future__ import annotations

import threading
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

    __slots__ = ("_landed", "_missing", "_over", "answers")

    def __init__(self, size: int) -> None:
        self.answers: list[Answer] = [None] * size
        self._landed: set[int] = set()
        self._missing = size
        # A bare lock: an Event costs more than all the rest of it.
        self._over = threading.Lock()
        self._over.acquire()

    def land(self, number: int, answer: Answer) -> None:
        """Keep an answer; on kazoo's thread, or on the caller's if kazoo refuses at once."""
        if number in self._landed:
            return
        self.answers[number] = answer
        self._landed.add(number)
        if len(self._landed) == self._missing:
            try:
                self._over.release()
            except RuntimeError:
                # Two threads saw the last one land.
                return

    @property
    def is_complete(self) -> bool:
        """Whether every answer is there."""
        return len(self._landed) == self._missing

    def wait(self, seconds: float) -> None:
        """Return when all is there, or after so long."""
        self._over.acquire(timeout=max(0.0, seconds))


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
        self._state = threading.Condition()

    @property
    def session_id(self) -> int:
        """Who we are, as the nodes of this session say."""
        return int(self._client._session_id or 0)  # noqa: SLF001

    def connect(self, *, deadline: float) -> None:
        """Open the session."""
        try:
            driver.start(self._client, seconds=deadline - self._clock.now())
        except (OSError, RuntimeError) as cause:
            # No file or no thread is to be had.
            raise refusals.unreachable(cause, where=self.where) from cause
        self._state_change(deadline)
        if not self.is_connected:
            error = refusals.unreachable(self._trouble.last, where=self.where)
            raise error from self._trouble.last

    def ask(self, *requests: Any, deadline: float) -> list[Answer]:  # noqa: ANN401
        """Return the answers, in order; a no is an answer.

        Raises BackendUnavailable if nothing was sent, SessionEnded if nothing of it can
        last, OutcomeUnknown if an answer is missing.
        """
        if not self.is_connected:
            self._state_change(deadline)
        self._refuse_unusable()
        flight = Flight(len(requests))
        send(self._client, [(one, Slot(flight, number)) for number, one in enumerate(requests)])
        flight.wait(deadline - self._clock.now())
        return checked(flight.answers, is_complete=flight.is_complete, where=self.where)

    def tell(self, request: Any, heard: Callable[[Answer], None]) -> None:  # noqa: ANN401
        """Send a request for whose answer nobody waits; `heard` gets it on kazoo's thread."""
        send(self._client, [(request, Told(heard))])

    def hang_up(self) -> None:
        """Cut the connection, so that another one is tried: this one does not answer."""
        driver.hang_up(self._client)

    def close(self, *, goodbye: bool, deadline: float) -> None:
        """End the connection; without a goodbye the session stays until its time is over."""
        can_be_heard, self.is_connected = self.is_connected, False
        if goodbye and can_be_heard:
            driver.say_goodbye(self._client)
            driver.wait_for_end(self._client, deadline - self._clock.now())
        driver.stop_here(self._client)
        driver.hang_up(self._client)
        self.is_over = True
        if driver.wait_for_end(self._client, 2 * driver.CONNECT):
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
        with self._state:
            self.is_connected = False
            if state == KazooState.LOST:
                self.is_over = True
                driver.stop_here(self._client)
            self._state.notify_all()
        self._changed()

    def _enter(self) -> None:
        with self._state:
            self.is_connected = True
            self._state.notify_all()
        self._changed()

    # -- waiting -----------------------------------------------------------------------

    def _refuse_unusable(self) -> None:
        if self.is_over:
            raise ended(where=self.where)
        if not self.is_connected:
            last = self._trouble.last
            raise refusals.unreachable(last, where=self.where) from last

    def _state_change(self, deadline: float) -> None:
        """Return when connected or over, or at the deadline."""
        with self._state:
            while not (self.is_connected or self.is_over):
                left = min(deadline - self._clock.now(), self._clock.longest_sleep)
                if left <= 0:
                    return
                self._state.wait(left)
