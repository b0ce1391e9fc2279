# Generated from src/lockfast/backends/waiting/_async/inbox.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""A client's inbox: wakes its waiting claims, by messages and by checks.

Where a store can notify, a release that admits a claim sends a message to the channel of the
claim's client. The message is a hint, which is lost if the client is not subscribed. So after every
subscription, all waiting claims ask again or are checked. In addition, one check for many names is
made every few seconds, because the client of a holder, or of a claim admitted ahead of ours, may
have died. A waiting claim need not poll, however long it waits.

Where a store cannot notify, there is no subscription, and the checks are more frequent.

Waiting claims rely on the background run. So the run survives every error, and if something ends
it all the same, it wakes the claims on its way out, and they start a new run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Generic, Protocol

from lockfast.backends.waiting import NotificationsUnavailable
from lockfast.backends.waiting._sync.background import Background
from lockfast.backends.waiting._sync.wakeups import Wakeups
from lockfast.backends.waiting.schedule import W, WaitSchedule
from lockfast.errors import ConfigurationError
from lockfast.model import FOREVER
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.waiting._sync.background import BackgroundRun
    from lockfast.backends.waiting.listener_threads import AnyListener
    from lockfast.backends.waiting.schedule import Checked, Timing
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

WAKE_BATCH = 32
"""Maximum number of claims woken together, because a thousand tasks that wake up in one turn would
stall an event loop. Also the maximum number of early messages that are kept."""

WAKE_BATCH_PAUSE_SECONDS = 0.001
"""Pause between two batches of woken claims, in seconds."""

INBOX_IDLE_SECONDS = 30.0
"""How long listening goes on while no claim waits, in seconds."""

OVERSLEPT_SECONDS = 1.0
"""If a wait ends this many seconds too late, the machine was suspended, and all timers are late."""

LISTEN_MAX_SECONDS = 2.0
"""Maximum time to listen before checking for other work, in seconds."""

CHECK_TIMEOUT_SECONDS = 2.0
"""Timeout for one check, in seconds."""

UNSUBSCRIBED_POLL_BEHIND_SECONDS = 1.0
"""Poll interval of our other claims at a name while no background run works for them, in seconds.
"""

RESUBSCRIBE_SECONDS = 60.0
"""How long to wait before the next attempt to subscribe, in seconds, if the store's notifications
do not arrive although nothing explains that."""


class WaitPolicy(Protocol):
    """What a store brings to an inbox."""

    timing: Timing
    sources: int = 1
    """The number of subscriptions; a message may come from any of them."""
    can_listen: bool = True
    """Whether the store can notify at all."""

    def next_channel(self, channel: str, opened: int) -> str:
        """Return the channel of subscription number `opened`; `channel` is the last one, or ''."""
        ...

    def subscribe(self, receiver: Receiver, channel: str, *, deadline: float) -> AnyListener:
        """Return a subscription that works, and that calls `receiver.hear`.

        `receiver.begun` may be called with what can give the opening up. Raises
        NotificationsUnavailable if the store's notifications do not arrive.
        """
        ...

    def deliver(self, message: Any, inbox: Inbox[Any]) -> None:  # noqa: ANN401 - the store's
        """Pass on what a message says, by `hear`, `watch` or `wake_name`."""
        ...

    def must_ask(self, waiter: Any) -> bool:  # noqa: ANN401 - the store's record of a claim
        """Whether the claim asks again after a gap in listening; if not, its name is checked."""
        del waiter
        return True

    def check(self, due: Sequence[Any], inbox: Inbox[Any]) -> None:
        """Ask the store about names, each given by our first claim, and pass on to `checked`."""
        del due, inbox


class Inbox(Generic[W]):
    """Wakes the claims that should ask again."""

    def __init__(
        self,
        policy: WaitPolicy,
        clock: Clock,
        *,
        thread_name: str = "lockfast-inbox",
        arrival: Callable[[W], int] | None = None,
    ) -> None:
        self.policy = policy
        self.clock = clock
        self.thread_name = thread_name
        self._arrival = arrival
        self._begin()

    def _begin(self) -> None:
        self.state = runtime.StateLock()
        self.schedule = WaitSchedule[W](self.policy.timing, arrival=self._arrival)
        self.schedule.notifies = self.policy.can_listen
        self.polling_until = 0.0 if self.policy.can_listen else FOREVER
        self.opened = 0
        self.channel = self.policy.next_channel("", 0)
        self.refused: ConfigurationError | None = None
        self.woken_later: list[str] = []
        """Claims that the background has to wake."""
        self._wakeups = Wakeups(self.clock)
        self._heard: dict[str, int] = {}
        self._early: dict[str, int] = {}
        self._has_warned = False
        self.receivers = [Receiver(self, source) for source in range(self.policy.sources)]

    # -- called by the backend ---------------------------------------------------------

    @property
    def push(self) -> bool | None:
        """Whether notifications reach us; None if a subscription was not tried recently."""
        if any(one.subscription is not None for one in self.receivers):
            return True
        return False if self.clock.now() < self.polling_until else None

    def waiter(self, claim_id: str) -> W | None:
        """Return the record of a claim that waits."""
        return self.schedule.waiting.get(claim_id)

    def joined(
        self,
        waiter: W,
        *,
        ends_at: float = FOREVER,
        is_head: bool = False,
        asked_on: str | None = None,
    ) -> None:
        """Record that a claim joined a line or is still in it, as the answer to its request says.

        If the claim's messages go to the channel `asked_on`, and we listen to another one by now,
        the claim asks again.
        """
        claim_id = waiter.claim.id
        with self.state:
            self.schedule.add(waiter, now=self.clock.now(), ends_at=ends_at, is_head=is_head)
            self._wakeups.expect(claim_id)
            # The claim's message may have come before the answer that put the claim in line.
            if claim_id in self._early:
                self._record(claim_id, self._early.pop(claim_id))
            is_woken = claim_id in self._heard or asked_on not in (None, self.channel)
            self._interrupt_if_due_sooner()
        if is_woken:
            self._wakeups.wake(claim_id)

    def left(self, claim_id: str) -> W | None:
        """Record that a claim no longer waits; return its record if it waited."""
        if claim_id not in self.schedule.waiting and claim_id not in self._early:
            return None
        with self.state:
            self._early.pop(claim_id, None)
            self._heard.pop(claim_id, None)
            self._wakeups.forget(claim_id)
            return self.schedule.remove(claim_id, now=self.clock.now())

    def heard(self, claim_id: str) -> int | None:
        """Return the largest token in the claim's messages since it last asked; None without any.

        Call this when the claim asks. The token is 0 if the store's messages have none.
        """
        if claim_id not in self._heard:
            return None
        with self.state:
            return self._heard.pop(claim_id, None)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when the claim should ask again."""
        running = [one.background.is_running() for one in self.receivers]
        is_running, now = any(running), self.clock.now()
        found = (one.subscription for one in self.receivers if one.subscription is not None)
        subscription = next(found, None) if is_running else None
        if not is_running or (subscription is None and now >= self.polling_until):
            with self.state:
                is_first = self.schedule.is_first(claim)
            if is_first:
                deadline = min(deadline, now + self.policy.timing.unsubscribed_poll_seconds)
            elif not is_running:
                deadline = min(deadline, now + UNSUBSCRIBED_POLL_BEHIND_SECONDS)
        if len(running) > 1:
            subscription = None  # a message may come from any of them, so read none of them here
        self._wakeups.wait(claim.id, deadline=deadline, subscription=subscription)
        if self.refused is not None:
            raise self.refused

    def wake(self, claims: Sequence[str]) -> None:
        """Wake claims for a reason other than a message.

        Callers that wait on a subscription are made to check for their wakeup.
        """
        for claim_id in claims:
            self._wakeups.wake(claim_id)
        for one in self.receivers if claims else ():
            if (subscription := one.subscription) is not None:
                subscription.wake_to_check()

    def end(self) -> None:
        """Make the runs end, even if `stop` is interrupted."""
        for one in self.receivers:
            one.end()

    def stop(self) -> None:
        """Stop listening; if this call is interrupted, another call waits for the end."""
        self.end()
        runtime.run_all_steps(*(one.background.stop for one in self.receivers))

    def after_fork_in_child(self) -> None:
        """Start afresh, because no claim of the parent waits in the child."""
        inherited = self.receivers
        self._begin()
        for one in inherited:
            one.abandon_in_child()

    # -- called by the policy ----------------------------------------------------------

    def hear(self, claim_id: str, token: int = 0) -> None:
        """Wake a claim because a message, or a request of our own, says that its turn has come."""
        with self.state:
            if claim_id in self.schedule.waiting:
                self._record(claim_id, token)
            else:
                self._early[claim_id] = max(token, self._early.pop(claim_id, 0))
                if len(self._early) > WAKE_BATCH:
                    del self._early[next(iter(self._early))]
        self._wakeups.wake(claim_id)

    def _record(self, claim_id: str, token: int) -> None:
        self._heard[claim_id] = max(token, self._heard.get(claim_id, 0))

    def wake_name(self, name: str) -> None:
        """Make the background wake all claims at a name, because they lost their places."""
        with self.state:
            self.woken_later += self.schedule.of_name(name)
            self._interrupt_if_due_sooner()

    def watch(self, claim_id: str) -> None:
        """Check the claim's line at the end of the admission window of a claim ahead of it."""
        with self.state:
            self.schedule.watch(claim_id, now=self.clock.now())
            self._interrupt_if_due_sooner()

    def checked(self, first: W, checked: Checked[W]) -> None:
        """Record the answer about a name that was due; the background wakes who should ask."""
        with self.state:
            asking = self.schedule.learned(first, checked, now=self.clock.now())
            for claim_id in asking:
                self._record(claim_id, 0)
            self.woken_later += asking
            self._interrupt_if_due_sooner()

    # -- called by the receivers -------------------------------------------------------

    def _interrupt_if_due_sooner(self) -> None:
        """Interrupt the background if something is due before its next check.

        It is not interrupted otherwise, because an interrupt costs as much as a whole request.
        """
        due_at = -FOREVER if self.woken_later else self.schedule.due_at()
        for one in self.receivers:
            if due_at < one.checks_at:
                one.interrupt()
                one.checks_at = due_at

    def go_without(self, error: NotificationsUnavailable) -> None:
        """Poll from now on, because no notifications arrive."""
        now, self.refused = self.clock.now(), None
        self.polling_until = FOREVER if error.is_for_good else now + RESUBSCRIBE_SECONDS
        with self.state:
            self.schedule.notifies = False
        if not self._has_warned:
            self._has_warned = True
            _log.warning("%s", error)

    def make_up(self, run: BackgroundRun) -> None:
        """Make up for messages that may be lost, and for timers that are late."""
        with self.state:
            found = self.schedule.missed(self.policy.must_ask, now=self.clock.now())
        self.wake_each(found, run)

    def wake_each(self, claims: Sequence[str], run: BackgroundRun) -> None:
        """Wake claims a few at a time."""
        for i in range(0, len(claims), WAKE_BATCH):
            if i:
                until = self.clock.now() + WAKE_BATCH_PAUSE_SECONDS
                runtime.wait_for(run.stopping, deadline=until, clock=self.clock)
            self.wake(claims[i : i + WAKE_BATCH])

    def receiver_failed(self, run: BackgroundRun, error: Exception) -> None:
        """Wake the waiting claims, which then ask the store and learn what is wrong."""
        if len(self.receivers) > 1:
            return  # the others still listen
        self.refused = error if isinstance(error, ConfigurationError) else None
        with self.state:
            found = list(self.schedule.waiting)
        self.wake_each(found, run)

    def receiver_ended(self) -> None:
        """Wake the claims that still wait, because otherwise they would sleep for ever."""
        with self.state:
            left = list(self.schedule.waiting)
        self.wake(left)


class Receiver:
    """Listens to one source for an inbox, and makes the inbox's checks."""

    def __init__(self, inbox: Inbox[Any], source: int) -> None:
        self.source = source
        self._inbox = inbox
        self._clock = inbox.clock
        self.subscription: AnyListener | None = None
        self.opening: AnyListener | None = None
        self._is_opening = False
        self.checks_at = FOREVER
        """When the run will next check what is due, unless it is interrupted sooner."""
        self.background = Background(
            self._serve,
            name=inbox.thread_name,
            clock=inbox.clock,
            failed=inbox.receiver_failed,
            ended=inbox.receiver_ended,
        )

    def interrupt(self) -> None:
        """Make the run check what is due."""
        self.background.interrupt()
        if (subscription := self.subscription) is not None:
            subscription.interrupt()

    def end(self) -> None:
        """Make the run end; an opening that may take seconds is given up."""
        self.background.end()
        self.interrupt()
        if self._is_opening:
            # In asyncio the task is cancelled, and in a thread the opening itself gives up.
            self.background.cancel()
            if (opening := self.opening) is not None:
                opening.give_up()

    def abandon_in_child(self) -> None:
        """Leave the connection to the parent process."""
        self.background.after_fork_in_child()
        for one in (self.subscription, self.opening):
            if one is not None:
                one.abandon_in_child()

    def hear(self, message: Any) -> None:  # noqa: ANN401 - the store's
        """Deliver a message."""
        self._inbox.policy.deliver(message, self._inbox)

    def begun(self, opening: AnyListener) -> None:
        """Record what can be given up; give it up at once if `end` was called before."""
        self.opening = opening
        if self.background.current is None:
            opening.give_up()

    # -- the run -----------------------------------------------------------------------

    def _serve(self, run: BackgroundRun) -> bool:
        """Listen, or poll, while claims wait; return true if the next attempt should follow."""
        inbox = self._inbox
        with inbox.state:
            if not inbox.schedule.waiting:
                # No claim waits, so end the run; otherwise closing would have to wait for a
                # needless attempt to subscribe.
                self.background.leave(run)
                inbox.refused = None
                return False
        try:
            if self._clock.now() < inbox.polling_until:
                return self._attend(None, run)
            return self._listen(run)
        except NotificationsUnavailable as error:
            inbox.go_without(error)
            inbox.make_up(run)
            return True

    def _listen(self, run: BackgroundRun) -> bool:
        """Subscribe, and serve the subscription; return true if it has to be opened again."""
        inbox, opened = self._inbox, self._inbox.opened + 1
        channel = inbox.policy.next_channel(inbox.channel, opened)
        self._is_opening = True
        try:
            deadline = self._clock.now() + inbox.policy.timing.subscribe_timeout
            subscription = inbox.policy.subscribe(self, channel, deadline=deadline)
        finally:
            self._is_opening, self.opening = False, None
        try:
            # Announce the channel only now, because a message to a channel without a subscriber
            # would be lost, and the claim would not be woken.
            inbox.opened, inbox.channel = opened, channel
            with inbox.state:
                inbox.schedule.notifies = True
            self.subscription, inbox.refused = subscription, None
            inbox.make_up(run)
            return self._attend(subscription, run)
        finally:
            if self.subscription is subscription:
                self.subscription = None
            subscription.close()

    def _attend(self, subscription: AnyListener | None, run: BackgroundRun) -> bool:
        """Listen and check while claims wait; without a subscription, only check.

        Returns true if the connection broke, or if it is time to subscribe again.
        """
        inbox, idle_since = self._inbox, self._clock.now()
        while self.background.is_wanted(run):
            # Clear the event before looking, so that an `interrupt` from now on is not lost.
            run.interrupted.clear()
            now = self._clock.now()
            if subscription is None and now >= inbox.polling_until:
                return True
            with inbox.state:
                woken, inbox.woken_later = inbox.woken_later, []
                due = inbox.schedule.take_due(now) if inbox.schedule.due_at() <= now else []
                if inbox.schedule.waiting:
                    idle_since = now
                elif now - idle_since > INBOX_IDLE_SECONDS:
                    self.background.leave(run)
                    return False
                until = min(inbox.schedule.due_at(), now + LISTEN_MAX_SECONDS)
                # Set this under the lock, so that a claim that joins a line later sees when this
                # run will wake up. A run that has something to do looks again afterwards.
                self.checks_at = -FOREVER if woken or due else until
            if woken or due:
                inbox.wake_each(woken, run)
                if due:
                    inbox.policy.check(due, inbox)
                continue
            if subscription is None:
                runtime.wait_for(run.interrupted, deadline=until, clock=self._clock)
            elif not subscription.listen(until=until):
                return True
            if self._clock.now() > until + OVERSLEPT_SECONDS:
                inbox.make_up(run)
        return False


_log = logging.getLogger("lockfast")
