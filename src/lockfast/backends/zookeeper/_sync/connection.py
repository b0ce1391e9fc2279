# Generated from src/lockfast/backends/zookeeper/_async/connection.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Connection to an ensemble: kazoo's thread receives the replies, and wakes the callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError, NotEmptyError
from kazoo.protocol.states import KazooState

from lockfast.backends.sessions.records import ended
from lockfast.backends.zookeeper import driver, errors
from lockfast.backends.zookeeper.requests import PendingReplies, ReplyReceiver, send
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.zookeeper.address import Address
    from lockfast.backends.zookeeper.requests import KazooReply, Request
    from lockfast.errors import LockError
    from lockfast.runtime.clock import Clock

EXPECTED = (NoNodeError, NodeExistsError, NotEmptyError)
"""Errors that are expected, because other clients create and delete nodes at the same time."""

REQUESTS_AT_ONCE = 500
"""Maximum number of requests that `ask_each` sends together."""


class ZooKeeperConnection:
    """One session's connection: opened once, restored by kazoo when lost, and never reopened.

    `changed` is called on kazoo's thread when the connection is lost or restored, and when the
    session has ended.
    """

    def __init__(
        self, address: Address, *, ttl: float, clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.where = address.where
        self.is_over: bool = False
        self.is_connected: bool = False
        self._address = address
        self._clock = clock
        self._changed = changed
        self._client, self._trouble = driver.new_client(address.options, ttl=ttl)
        self.greeting: driver.DriverHandshake = driver.DriverHandshake(self._client, clock)
        driver.call_when_usable(self._client, self._trouble, self._enter)
        self._client.add_listener(self._listen)
        self._settling: set[runtime.WakeEvent] = set()
        """The events of callers that wait until the session is connected or has ended."""

    def connect(self, *, deadline: float) -> None:
        """Open the session."""
        try:
            driver.start(self._client, seconds=deadline - self._clock.now())
        except (OSError, RuntimeError) as cause:
            # There is no file descriptor or no thread left.
            raise errors.unreachable(cause, where=self.where) from cause
        self._wait_until_settled(deadline)
        if not self.is_connected:
            raise self._unreachable()

    def ask(self, *requests: Request, deadline: float) -> list[KazooReply]:
        """Return the replies, in order; an error that is not in EXPECTED is raised."""
        answers = self.exchange(*requests, deadline=deadline)
        self.refuse(requests, answers)
        return answers

    def ask_each(self, requests: Sequence[Request], *, deadline: float) -> list[KazooReply]:
        """Return the replies to any number of requests, as `ask` does."""
        answers: list[KazooReply] = []
        for i in range(0, len(requests), REQUESTS_AT_ONCE):
            answers += self.ask(*requests[i : i + REQUESTS_AT_ONCE], deadline=deadline)
        return answers

    def refuse(self, requests: Sequence[Request], answers: Sequence[KazooReply]) -> None:
        """Raise the first error that is not in EXPECTED, if there is one."""
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, KazooException) and not isinstance(answer, EXPECTED):
                where, users = self.where, self._address.users
                error = errors.refused(answer, where=where, path=request.path, users=users)
                raise error from answer

    def exchange(self, *requests: Request, deadline: float) -> list[KazooReply]:
        """Return the replies, in order; a refusal is a reply.

        Raises BackendUnavailable if nothing was sent, SessionEnded if no effect of the requests can
        last, and OutcomeUnknown if a reply is missing.
        """
        if not self.is_connected:
            self._wait_until_settled(deadline)
        if self.is_over:
            raise ended(where=self.where)
        if not self.is_connected:
            raise self._unreachable()
        complete = runtime.WakeEvent()
        replies = PendingReplies(len(requests), complete.set)
        send(self._client, replies.receivers(requests))
        complete.wait(max(0.0, deadline - self._clock.now()))
        return replies.checked(where=self.where)

    def tell(self, request: Request, heard: Callable[[KazooReply], None]) -> None:
        """Send a request whose reply nobody waits for; `heard` gets it on kazoo's thread."""
        send(self._client, [(request, ReplyReceiver(heard))])

    def hang_up(self) -> None:
        """Cut the connection, which does not answer, so that kazoo tries the next member."""
        # Requests wait for the next connection from now on; on this one, they would only be lost.
        self.is_connected = False
        driver.hang_up(self._client)

    def close(self, *, goodbye: bool, deadline: float) -> None:
        """Close the connection; without a goodbye the session stays until it times out."""
        was_connected, self.is_connected = self.is_connected, False
        if goodbye and was_connected:
            driver.say_goodbye(self._client)
            self._wait_for_end(deadline)
        driver.stop_reconnecting(self._client)
        driver.hang_up(self._client)
        self.is_over = True
        self._wait_for_end(self._clock.now() + 2 * driver.CONNECT_SECONDS)
        if driver.has_ended(self._client):
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
        self._report_change()

    def _enter(self) -> None:
        self.is_connected = True
        self._report_change()

    def _report_change(self) -> None:
        for one in list(self._settling):
            one.set()
        self._changed()

    # -- waiting -----------------------------------------------------------------------

    def _unreachable(self) -> LockError:
        cause = self._trouble.last
        error = errors.unreachable(cause, where=self.where)
        error.__cause__ = cause
        return error

    def _is_settled(self) -> bool:
        return self.is_connected or self.is_over

    def _wait_until_settled(self, deadline: float) -> None:
        """Return once connected, or once the session has ended, or at the deadline."""
        while not self._is_settled():
            changed = runtime.WakeEvent()
            self._settling.add(changed)
            try:
                # The state may have changed just before the event was added.
                if self._is_settled() or not runtime.wait_for(
                    changed, deadline=deadline, clock=self._clock
                ):
                    return
            finally:
                self._settling.discard(changed)

    def _wait_for_end(self, deadline: float) -> None:
        """Return when kazoo's thread has finished its work, or at the deadline."""
        # Do not wait for kazoo's own event, which would block an event loop. In a thread, an
        # interrupt inside that wait would turn into another error and be lost.
        while not driver.has_ended(self._client) and self._clock.now() < deadline:
            runtime.sleep(driver.DRIVER_POLL_SECONDS)
