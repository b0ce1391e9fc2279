# Generated from src/lockfast/backends/sql/_async/waiting.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How waiting claims are woken on a SQL server, by notifications and by polling."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from lockfast.backends.sql.verbs import WATCH_PREFIX, NotificationsUnavailable, new_channel
from lockfast.backends.sql.wait_schedule import PollSchedule
from lockfast.backends.waiting._sync.background import Background
from lockfast.backends.waiting._sync.wakeups import Wakeups
from lockfast.core.backoff import delay
from lockfast.errors import ConfigurationError, LockError
from lockfast.model import FOREVER
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sql._sync.transport import SqlTransport
    from lockfast.backends.sql.wait_schedule import LineProbe, ProbeResult
    from lockfast.backends.waiting._sync.background import BackgroundRun
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock


# What an inbox needs from a store whose server can send notifications.


class Notifications(Protocol):
    """A subscription to one channel, on a connection of its own."""

    def listen(self, *, until: float) -> bool:
        """Deliver notifications until `until` or a `kick`; return false if the connection broke."""
        ...

    def wait_for_event(self, event: runtime.WakeEvent, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        ...

    def kick(self) -> None:
        """Make `listen` return."""
        ...

    def wake_to_check(self) -> None:
        """Make callers of `wait_for_event` check whether their event is set."""
        ...

    def give_up(self) -> None:
        """Make a subscription that is still being opened fail at once, from any thread."""
        ...

    def close(self) -> None:
        """End the subscription."""
        ...

    def abandon_in_child(self) -> None:
        """Leave the connection to the parent process, which still uses it."""
        ...


class NotificationSource(Protocol):
    """A transport that can receive a server's notifications."""

    def subscribe(
        self,
        channel: str,
        hear: Callable[[str], None],
        *,
        deadline: float,
        begun: Callable[[Notifications], None],
    ) -> Notifications:
        """Return a subscription that works, as proven by a test; `begun` gets it before the test.

        Raises NotificationsUnavailable if the server's notifications do not arrive.
        """
        ...


# How a client's waiting claims are woken: through one channel for all claims, and by probes.
#
# Where the server can notify, a release that admits a claim notifies the channel of the claim's
# client. The notification is only a hint, and is lost if the client does not listen, so all lines
# are probed after every subscription. In addition, one statement every few seconds probes all lines
# in which claims of ours wait. It replaces the notifications that are never sent because a holder,
# or the client of a claim admitted ahead of ours, has died.
#
# If the server cannot notify, or is behind a pooler that switches connections between transactions,
# there is no channel, and the probes are more frequent.

WAKE_BATCH = 32
"""Maximum number of claims woken together, because a thousand tasks that wake up in one turn would
stall an event loop. Also the maximum number of early wakeups that are kept."""

WAKE_BATCH_PAUSE_SECONDS = 0.001
"""Pause between two batches of woken claims, in seconds."""

INBOX_IDLE_SECONDS = 30.0
"""How long the listening connection is kept while no claim waits, in seconds."""

OVERSLEPT_SECONDS = 1.0
"""If a wait ends this many seconds too late, the machine was suspended, and all timers are late."""

UNHEARD_POLL_SECONDS = 0.25
"""Poll interval of our first claim at a name until the subscription is open, in seconds."""

UNHEARD_POLL_BEHIND_SECONDS = 1.0
"""Poll interval of our other claims while no background run listens or probes for them, in seconds.
"""

POLL_TIMEOUT_SECONDS = 2.0
"""Timeout for one probe, in seconds."""

SUBSCRIBE_TIMEOUT_SECONDS = 3.0
"""Timeout for subscribing, including the proof that notifications arrive, in seconds."""

RESUBSCRIBE_SECONDS = 60.0
"""How long to wait before the next attempt to subscribe, in seconds, if the proof failed although
no pooler was detected."""

LISTEN_MAX_SECONDS = 5.0
"""Maximum time to listen before checking for other work, in seconds."""

NAMES_PER_POLL = 500
"""Number of lines probed in one statement."""


class SqlInbox:
    """Wakes the claims that should ask again; without `notification_source` by probes only."""

    def __init__(
        self,
        transport: SqlTransport[Any],
        looking: LineProbe,
        clock: Clock,
        *,
        notification_source: NotificationSource | None,
    ) -> None:
        self._transport = transport
        self._looking = looking
        self._clock = clock
        self._notification_source = notification_source
        self._begin()

    def _begin(self) -> None:
        self.channel = new_channel()
        self.state = runtime.StateLock()
        self.lines = PollSchedule(notifies=self._notification_source is not None)
        self._wakeups = Wakeups(self._clock)
        self._called: dict[str, None] = {}
        self._subscription: Notifications | None = None
        self._opening: Notifications | None = None
        self._is_opening = False
        self._refused: ConfigurationError | None = None
        self._polling_until = FOREVER if self._notification_source is None else 0.0
        self._has_warned = False
        self._background = Background(self._run, name="lockfast-inbox", clock=self._clock)

    # -- called by the backend ---------------------------------------------------------

    @property
    def bell(self) -> str:
        """The channel stored with a waiting claim; empty if notifications would not reach us."""
        return self.channel if self.lines.notifies or self._notification_source is None else ""

    @property
    def push(self) -> bool | None:
        """Whether notifications reach us; None if a subscription was not tried recently."""
        if self._subscription is not None:
            return True
        return False if self._clock.now() < self._polling_until else None

    def was_woken(self, claim_id: str) -> bool:
        """Return whether a wakeup came for the claim since it last asked."""
        with self.state:
            was_woken = claim_id in self._called
            self._called.pop(claim_id, None)
        return was_woken

    def stands(self, claim: Claim, arrived: int, result: ProbeResult) -> None:
        """Record that the claim was put in line, or is still in line."""
        with self.state:
            self._wakeups.expect(claim.id)
            before = self.lines.due_at()
            self.lines.stands(claim, arrived, result, now=self._clock.now())
            is_due_sooner = self.lines.due_at() < before
            # The claim's wakeup may have come before the answer that put the claim in line.
            is_called = claim.id in self._called
        if is_called:
            self._wakeups.wake(claim.id)
        if is_due_sooner:
            self._kick()

    def forget(self, claim_id: str) -> None:
        """Record that the claim no longer waits."""
        if self._called or self.lines.has_waiters:
            with self.state:
                # The lock is needed because `_wake_called` may iterate over this dict in another
                # thread.
                self._called.pop(claim_id, None)
                self.lines.forget(claim_id, now=self._clock.now())
                self._wakeups.forget(claim_id)

    def lose(self, claim: Claim) -> None:
        """Record that the claim was turned away, and with it probably our other claims at its name.

        The other claims are woken and forgotten, so that they ask again without relying on their
        old entries.
        """
        with self.state:
            found = self.lines.behind(claim)
        self.wake(found)
        for claim_id in found:
            self.forget(claim_id)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when the claim should ask again."""
        is_running = self._background.is_running()
        subscription = self._subscription if is_running else None
        now = self._clock.now()
        if not is_running or (subscription is None and now >= self._polling_until):
            if self.lines.is_first(claim):
                deadline = min(deadline, now + UNHEARD_POLL_SECONDS)
            elif not is_running:
                deadline = min(deadline, now + UNHEARD_POLL_BEHIND_SECONDS)
        self._wakeups.wait(claim.id, deadline=deadline, subscription=subscription)
        if self._refused is not None:
            raise self._refused

    def wake(self, claims: list[str]) -> None:
        """Wake claims for a reason other than a notification.

        Callers that wait on the subscription are made to check for their wakeup.
        """
        for claim_id in claims:
            self._wakeups.wake(claim_id)
        if claims and (subscription := self._subscription) is not None:
            subscription.wake_to_check()

    def call(self, claims: list[str]) -> None:
        """Wake the claims that a transaction of our own admitted or turned away."""
        for claim_id in claims:
            self._wake_called(claim_id)
        if claims and (subscription := self._subscription) is not None:
            subscription.wake_to_check()

    def stop(self) -> None:
        """Stop the background run; it ends even if this call is interrupted."""
        self._background.stop(kick=self._end)

    def _end(self) -> None:
        self._kick()
        if self._is_opening:
            # Do not wait for a proof that may take seconds. In asyncio the task is cancelled, and
            # in a thread the subscription gives up.
            self._background.cancel()
            if (opening := self._opening) is not None:
                opening.give_up()

    def after_fork_in_child(self) -> None:
        """Start afresh, because no claim of the parent waits in the child."""
        inherited = (self._subscription, self._opening)
        self._begin()
        for one in inherited:
            if one is not None:
                one.abandon_in_child()

    def _kick(self) -> None:
        self._background.kick()
        if (subscription := self._subscription) is not None:
            subscription.kick()

    # -- the background ----------------------------------------------------------------

    def _run(self, run: BackgroundRun) -> None:
        try:
            self._keep_listening(run)
        finally:
            self._background.leave(run)
            # Most likely a program cancelled all of its tasks. Wake the claims that still wait,
            # because otherwise they would sleep for ever.
            with self.state:
                left = self.lines.waiting
            self.wake(left)

    def _keep_listening(self, run: BackgroundRun) -> None:
        self._refused = None
        attempt = 0
        while self._background.is_wanted(run):
            with self.state:
                if not self.lines.has_waiters:
                    # No claim waits, so end the run; otherwise closing would have to wait for a
                    # needless attempt to subscribe.
                    self._background.leave(run)
                    return
            try:
                if self._notification_source is None or self._clock.now() < self._polling_until:
                    self._poll(run)
                elif not self._listen(self._notification_source, run):
                    return
                attempt = 0
                continue
            except NotificationsUnavailable as error:
                self._go_without(error)
                continue
            except LockError as error:
                _log.debug("no inbox: %s", error)
                if isinstance(error, ConfigurationError):
                    self._refused = error
            except Exception as error:  # noqa: BLE001 - the waiters rely on this loop
                _log.warning("the inbox failed, and is opened again: %r", error, exc_info=True)
            # Wake the waiting claims, which then ask the server and learn what is wrong.
            self._wake_all(run)
            pause = delay(attempt, jitter=self._clock.jitter())
            attempt += 1
            until = self._clock.now() + pause
            runtime.wait_for(run.stopping, deadline=until, clock=self._clock)

    def _go_without(self, error: NotificationsUnavailable) -> None:
        self._polling_until = (
            FOREVER if error.is_for_good else self._clock.now() + RESUBSCRIBE_SECONDS
        )
        with self.state:
            self.lines.notifies = False
        if not self._has_warned:
            self._has_warned = True
            _log.warning("%s", error)

    def _listen(self, notification_source: NotificationSource, run: BackgroundRun) -> bool:
        """Subscribe, and serve the subscription; return true if it has to be opened again."""
        subscription = self._opened(notification_source, run)
        try:
            with self.state:
                self.lines.notifies = True
            self._subscription, self._refused = subscription, None
            # Probe all lines, because notifications sent before the subscription are lost.
            self._probe_all(run)
            return self._attend(subscription, run)
        finally:
            if self._subscription is subscription:
                self._subscription = None
            subscription.close()

    def _opened(self, notification_source: NotificationSource, run: BackgroundRun) -> Notifications:
        def begun(subscription: Notifications) -> None:
            self._opening = subscription
            if not self._background.is_wanted(run):
                subscription.give_up()  # `stop` came before there was a subscription

        self._is_opening = True
        try:
            return notification_source.subscribe(
                self.channel,
                self._on_message,
                deadline=self._clock.now() + SUBSCRIBE_TIMEOUT_SECONDS,
                begun=begun,
            )
        finally:
            self._is_opening, self._opening = False, None

    def _attend(self, subscription: Notifications, run: BackgroundRun) -> bool:
        """Listen and probe while claims wait; return true if the connection broke."""
        idle_since = self._clock.now()
        while self._background.is_wanted(run):
            now = self._clock.now()
            with self.state:
                due_at, has_waiters = self.lines.due_at(), self.lines.has_waiters
            if now >= due_at:
                self._probe_due(run)
                continue
            if has_waiters:
                idle_since = now
            elif now - idle_since > INBOX_IDLE_SECONDS and self._ends(run):
                return False
            until = min(due_at, now + LISTEN_MAX_SECONDS)
            if not subscription.listen(until=until):
                return True
            if self._clock.now() > until + OVERSLEPT_SECONDS:
                self._probe_all(run)  # all timers were late, so all results may be stale
        return False

    def _poll(self, run: BackgroundRun) -> None:
        """Probe until no claim has waited for a while, or until it is time to subscribe again."""
        idle_since = self._clock.now()
        while True:
            # Clear the event before the checks, so that a kick during the checks is not lost.
            run.kicked.clear()
            now = self._clock.now()
            if now >= self._polling_until or not self._background.is_wanted(run):
                return
            with self.state:
                due_at, has_waiters = self.lines.due_at(), self.lines.has_waiters
            if has_waiters:
                idle_since = now
            elif now - idle_since > INBOX_IDLE_SECONDS:
                return
            if now >= due_at:
                self._probe_due(run)
                continue
            until = min(due_at, self._polling_until, now + LISTEN_MAX_SECONDS)
            runtime.wait_for(run.kicked, deadline=until, clock=self._clock)
            if has_waiters and self._clock.now() > until + OVERSLEPT_SECONDS:
                self._probe_all(run)  # all timers were late, so all results may be stale

    def _ends(self, run: BackgroundRun) -> bool:
        with self.state:
            if self.lines.has_waiters:
                return False
            self._background.leave(run)
        return True

    def _probe_due(self, run: BackgroundRun) -> None:
        now = self._clock.now()
        with self.state:
            probes = self.lines.take_due(now, most=NAMES_PER_POLL)
        try:
            rows = self._transport.ask(
                self._looking.request(probes), deadline=now + POLL_TIMEOUT_SECONDS
            )
        except LockError as error:
            # Wake the waiting claims, which then ask the server and report the same error.
            _log.debug("a look was not answered: %s", error)
            self._wake_each([one.claim_id for one in probes], run)
            return
        called: list[str] = []
        now = self._clock.now()
        with self.state:
            for probe, result in zip(probes, self._looking.results_in(probes, rows), strict=True):
                called += self.lines.learn(probe, result, now=now)
            self._called.update(dict.fromkeys(called))
        self._wake_each(called, run)

    # -- wakeups -----------------------------------------------------------------------

    def _on_message(self, message: str) -> None:
        if message.startswith(WATCH_PREFIX):
            self._probe_later(message.removeprefix(WATCH_PREFIX))
        else:
            self._wake_called(message)

    def _probe_later(self, claim_id: str) -> None:
        """Schedule a probe for the end of the admission window of the claim ahead of `claim_id`."""
        with self.state:
            before = self.lines.due_at()
            self.lines.watch(claim_id, now=self._clock.now())
            is_due_sooner = self.lines.due_at() < before
        if is_due_sooner:
            self._kick()

    def _wake_called(self, claim_id: str) -> None:
        with self.state:
            self._called[claim_id] = None
            if len(self._called) > WAKE_BATCH and claim_id not in self.lines:
                stale = [one for one in self._called if one not in self.lines]
                for one in stale[:-WAKE_BATCH]:
                    del self._called[one]
        self._wakeups.wake(claim_id)

    def _probe_all(self, run: BackgroundRun) -> None:
        """Probe every line, and wake claims that may share a hold, which a probe can miss."""
        with self.state:
            self.lines.make_all_due(now=self._clock.now())
            found = self.lines.sharing
        self._wake_each(found, run)

    def _wake_all(self, run: BackgroundRun) -> None:
        with self.state:
            found = self.lines.waiting
        self._wake_each(found, run)

    def _wake_each(self, claims: list[str], run: BackgroundRun) -> None:
        """Wake the claims a few at a time."""
        for i in range(0, len(claims), WAKE_BATCH):
            if i:
                until = self._clock.now() + WAKE_BATCH_PAUSE_SECONDS
                runtime.wait_for(run.stopping, deadline=until, clock=self._clock)
            self.wake(claims[i : i + WAKE_BATCH])


_log = logging.getLogger("lockfast")
