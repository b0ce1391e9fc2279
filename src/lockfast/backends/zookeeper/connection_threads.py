"""Connection to an ensemble, sync flavour: replies wake the thread that sent the request.

Its counterpart is `connection_aio`.
"""

from __future__ import annotations

import threading
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

    __slots__ = ("_arrived", "_missing", "_over", "answers")

    def __init__(self, size: int) -> None:
        self.answers: list[KazooReply] = [None] * size
        self._arrived: set[int] = set()
        self._missing = size
        # Use a bare lock, because creating an Event costs more than everything else in this class.
        self._over = threading.Lock()
        self._over.acquire()

    def keep_reply(self, number: int, answer: KazooReply) -> None:
        """Keep a reply; called on kazoo's thread, or on the sender's if kazoo refuses at once."""
        if number in self._arrived:
            return
        self.answers[number] = answer
        self._arrived.add(number)
        if len(self._arrived) == self._missing:
            try:
                self._over.release()
            except RuntimeError:
                # Two threads saw the last reply arrive, and the other thread has released the lock.
                return

    @property
    def is_complete(self) -> bool:
        """Whether every reply has arrived."""
        return len(self._arrived) == self._missing

    def wait(self, seconds: float) -> None:
        """Return when all replies have arrived, or after `seconds`."""
        self._over.acquire(timeout=max(0.0, seconds))


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
        self._state = threading.Condition()

    def connect(self, *, deadline: float) -> None:
        """Open the session."""
        try:
            driver.start(self._client, seconds=deadline - self._clock.now())
        except (OSError, RuntimeError) as cause:
            # There is no file descriptor or no thread left.
            raise errors.unreachable(cause, where=self.where) from cause
        self._wait_until_settled(deadline)
        if not self.is_connected:
            error = errors.unreachable(self._trouble.last, where=self.where)
            raise error from self._trouble.last

    def ask(self, *requests: Any, deadline: float) -> list[KazooReply]:  # noqa: ANN401
        """Return the replies, in order; a refusal is a reply.

        Raises BackendUnavailable if nothing was sent, SessionEnded if no effect of the requests can
        last, and OutcomeUnknown if a reply is missing.
        """
        if not self.is_connected:
            self._wait_until_settled(deadline)
        self._refuse_unusable()
        flight = PendingRequests(len(requests))
        send(self._client, [(one, Slot(flight, number)) for number, one in enumerate(requests)])
        flight.wait(deadline - self._clock.now())
        return checked(flight.answers, is_complete=flight.is_complete, where=self.where)

    def tell(self, request: Any, heard: Callable[[KazooReply], None]) -> None:  # noqa: ANN401
        """Send a request whose reply nobody waits for; `heard` gets it on kazoo's thread."""
        send(self._client, [(request, ReplyOrError(heard))])

    def hang_up(self) -> None:
        """Cut the connection, which does not answer, so that kazoo tries the next member."""
        driver.hang_up(self._client)

    def close(self, *, goodbye: bool, deadline: float) -> None:
        """Close the connection; without a goodbye the session stays until it times out."""
        was_connected, self.is_connected = self.is_connected, False
        if goodbye and was_connected:
            driver.say_goodbye(self._client)
            driver.wait_for_end(self._client, deadline - self._clock.now())
        driver.stop_reconnecting(self._client)
        driver.hang_up(self._client)
        self.is_over = True
        if driver.wait_for_end(self._client, 2 * driver.CONNECT_SECONDS):
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
        with self._state:
            self.is_connected = False
            if state == KazooState.LOST:
                self.is_over = True
                driver.stop_reconnecting(self._client)
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
            raise errors.unreachable(last, where=self.where) from last

    def _wait_until_settled(self, deadline: float) -> None:
        """Return once connected, or once the session has ended, or at the deadline."""
        with self._state:
            while not (self.is_connected or self.is_over):
                left = min(deadline - self._clock.now(), self._clock.longest_sleep)
                if left <= 0:
                    return
                self._state.wait(left)
