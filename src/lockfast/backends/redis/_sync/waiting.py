# Generated from src/lockfast/backends/redis/_async/waiting.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How waiting claims are woken on Redis: inbox and heartbeats."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.network.codec import read
from lockfast.backends.redis import replies as redis_replies
from lockfast.backends.redis import requests
from lockfast.backends.redis.wait_schedule import HEARTBEAT_SECONDS, HeartbeatSchedule, WaitingClaim
from lockfast.backends.waiting._sync.wakeups import Wakeups
from lockfast.core.backoff import delay, spread
from lockfast.errors import ConfigurationError, LockError
from lockfast.model import FOREVER
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.redis._sync.topology import AnyTransport
    from lockfast.backends.redis.connection_threads import RedisSubscription
    from lockfast.backends.redis.wait_schedule import NameWaiters
    from lockfast.model import Claim
    from lockfast.runtime.clock import Clock

# The heartbeats of a client with waiting claims. One request covers up to NAMES_PER_HEARTBEAT
# names.

HEARTBEAT_MIN_SECONDS = 0.02
"""Minimum time between two heartbeats, in seconds, however soon a hold ends."""

HEARTBEAT_TIMEOUT_SECONDS = 2.0
"""Timeout for one request, in seconds."""

NAMES_PER_HEARTBEAT = 32
"""Maximum number of names in one request; a longer script would block the server's other work."""

HEARTBEATS_AT_ONCE = 4
"""Maximum number of requests sent at once; more would stall an event loop."""


class Heartbeats:
    """Sends the heartbeats that are due, and handles the replies."""

    def __init__(
        self,
        inbox: RedisInbox,
        transport: AnyTransport,
        keys: requests.RedisKeys,
        clock: Clock,
    ) -> None:
        self._inbox = inbox
        self._transport = transport
        self._keys = keys
        self._clock = clock
        self._tasks: dict[str, runtime.Task] = {}
        self._queued: dict[str, list[NameWaiters]] = {}

    def beat(self, now: float) -> None:
        """Send heartbeats for some of the names that are due; the next call sends the others."""
        with self._inbox.state:
            lines = self._inbox.lines.take_due(now, most=NAMES_PER_HEARTBEAT * HEARTBEATS_AT_ONCE)
        if not self._transport.is_sharded:
            self._send_heartbeats(lines, size=NAMES_PER_HEARTBEAT)
            return
        # One request cannot cover names on several servers. Each server gets its own task, so that
        # a slow one does not delay the others.
        asked = [self._request([line]) for line in lines]
        for server, numbers in self._transport.parts(asked).items():
            with self._inbox.state:
                self._queued.setdefault(server, []).extend(lines[i] for i in numbers)
                task = self._tasks.get(server)
                if task is None or not task.is_alive():
                    self._tasks[server] = runtime.spawn(
                        partial(self._send_queued, server), name="lockfast-beat"
                    )

    def stop(self) -> None:
        """Wait until the heartbeats under way have ended."""
        with self._inbox.state:
            self._queued.clear()
            tasks = list(self._tasks.values())
        for one in tasks:
            one.join()

    def _send_queued(self, server: str) -> None:
        """Send everything that is queued for one server."""
        while lines := self._next_for(server):
            try:
                self._send_heartbeats(lines, size=1)
            except Exception as error:  # noqa: BLE001 - the waiters rely on this loop
                _log.warning("a heartbeat failed, and is repeated: %r", error, exc_info=True)

    def _next_for(self, server: str) -> list[NameWaiters]:
        with self._inbox.state:
            lines = self._queued.get(server, [])
            self._queued[server] = lines[NAMES_PER_HEARTBEAT:]
            if not lines:
                # Remove the task under the lock, so that a caller that queues more names starts a
                # new task for them.
                self._tasks.pop(server, None)
            return lines[:NAMES_PER_HEARTBEAT]

    def _request(self, lines: list[NameWaiters]) -> bytes:
        names = [(self._keys.of(one.name), one.client) for one in lines]
        return requests.heartbeat(names, self._inbox.name)

    def _send_heartbeats(self, lines: list[NameWaiters], *, size: int) -> None:
        groups = [lines[i : i + size] for i in range(0, len(lines), size)]
        asked = [self._request(group) for group in groups]
        try:
            deadline = self._clock.now() + HEARTBEAT_TIMEOUT_SECONDS
            replies = self._transport.send_all(asked, deadline=deadline)
        except LockError as error:
            replies = [error] * len(asked)
        is_loaded = False
        lost: list[str] = []
        for group, reply in zip(groups, replies, strict=True):
            if isinstance(reply, list):
                beats = read(
                    partial(redis_replies.heartbeat_replies, number=len(group)),
                    reply,
                    transport=self._transport,
                )
                for line, beat in zip(group, beats, strict=True):
                    lost += self._learn(line, beat)
                continue
            _log.debug("heartbeat not answered: %s", reply)
            if not isinstance(reply, LockError) and not is_loaded:
                # The server refused, most likely because it has lost its scripts.
                self._load()
                is_loaded = True
            with self._inbox.state:
                lost += [claim_id for line in group for claim_id in line.claims]
        if lost or self._transport.is_sharded:
            self._inbox.wake_later(lost)

    def _load(self) -> None:
        try:
            self._transport.ask(
                requests.load("beat"), deadline=self._clock.now() + HEARTBEAT_TIMEOUT_SECONDS
            )
        except LockError as error:
            # Nothing more to do: the waiting claims are woken, ask the store, and report the same
            # problem.
            _log.debug("scripts not loaded: %s", error)

    def _learn(self, line: NameWaiters, beat: redis_replies.HeartbeatReply) -> list[str]:
        """Record the reply to a heartbeat; return the claims that lost their place in line."""
        now = self._clock.now()
        ends_at = FOREVER
        if beat.ends_in is not None:
            ends_in = max(HEARTBEAT_MIN_SECONDS, beat.ends_in)
            ends_at = now + spread(ends_in, jitter=self._clock.jitter())
        if beat.is_unsettled:
            ends_at = now
        with self._inbox.state:
            return self._inbox.lines.learn(line, ends_at=ends_at, epoch=beat.epoch)


_log = logging.getLogger("lockfast")

# A client's inbox on Redis: one channel for all its waiting claims, and their heartbeats.
#
# A release that admits a claim publishes a message to the inbox of the claim's client. The message
# is a hint, which is lost if the client is not subscribed, so after every subscription all waiting
# claims ask again. If the message proves that the claim holds the name, the claim need not ask
# (docs/decisions/0006-pushed-grants.md). Every few seconds, one heartbeat for many names reports
# that the client is alive, because a line skips the claims of dead clients. A heartbeat also moves
# the lines whose holders died, so a waiting claim need not poll, however long it waits.
#
# Waiting claims rely on the background task. So the task survives every error. If something ends
# the task all the same, it wakes the claims on its way out, and they start a new task.

WAKE_BATCH = 32
"""Maximum number of claims woken together, because a thousand tasks that wake up in one turn would
stall an event loop. Also the maximum number of early messages that are kept."""

WAKE_BATCH_PAUSE_SECONDS = 0.001
"""Pause between two batches of woken claims, in seconds."""

INBOX_IDLE_SECONDS = 30.0
"""Idle time after which an inbox without waiting claims closes, in seconds; it reopens when needed.
"""

OVERSLEPT_SECONDS = 1.0
"""If a wait ends this many seconds too late, the machine was suspended, and all timers are late."""

UNHEARD_POLL_SECONDS = 1.0
"""Poll interval of a waiting claim if no background task can be started, in seconds."""


class InboxRun:
    """One run of the background task; the inbox records it before the task exists."""

    def __init__(self) -> None:
        self.stopping = runtime.WakeEvent()
        self.ended = runtime.WakeEvent()
        self.has_begun = False
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Return whether the run's task is running; false if its start was interrupted half-way."""
        return self.task is not None and self.task.is_alive()


class RedisInbox:
    """Wakes the claims that should ask again."""

    def __init__(self, transport: AnyTransport, keys: requests.RedisKeys, clock: Clock) -> None:
        self._transport = transport
        self._keys = keys
        self._clock = clock
        self._opened = 0
        self.name = _new_name(0)
        self._wakeups = Wakeups(clock)
        self.state = runtime.StateLock()
        self.lines = HeartbeatSchedule()
        self._early: dict[str, redis_replies.WakeupMessage] = {}
        self._woken_later: list[str] = []
        self._subscription: RedisSubscription | None = None
        self._checks_at = FOREVER
        """When the background task will next check what is due, unless it is interrupted sooner."""
        self._listening: InboxRun | None = None
        self._runs: set[InboxRun] = set()
        self._heartbeats = Heartbeats(self, transport, keys, clock)
        self._refused: ConfigurationError | None = None

    # -- called by the backend ---------------------------------------------------------

    def stands(
        self, claim: Claim, in_line: redis_replies.JoinedLine, *, inbox: str, asked_at: float
    ) -> None:
        """Record that the claim joined a line or is still in it; `inbox` receives its wakeup."""
        now, ends_at = self._clock.now(), FOREVER
        if in_line.ends_in is not None:
            ends_at = now + spread(in_line.ends_in, jitter=self._clock.jitter())
        waiting = WaitingClaim(claim, in_line.epoch, in_line.last_token, asked_at)
        with self.state:
            self._wakeups.expect(claim.id)
            self.lines.stands(waiting, now=now, ends_at=ends_at)
            # The claim's message may have come before the reply that put the claim in line.
            early = self._early.pop(claim.id, None)
            if early is not None:
                waiting.deliver(early)
            # Interrupt the background task only if the name is due before the task's next check,
            # because the interrupt costs as much as the rest of this method.
            is_sooner = self.lines.due_at() < self._checks_at
            subscription = self._subscription if is_sooner else None
            # If the inbox was reopened after the request was sent, the message may go to its old
            # name.
            is_rung = early is not None or inbox != self.name
        if is_rung:
            self._wakeups.wake(claim.id)
        if subscription is not None:
            subscription.kick()

    def forget(self, claim_id: str) -> None:
        """Record that the claim no longer waits."""
        if claim_id in self.lines.waiting:
            with self.state:
                self.lines.forget(claim_id)
                self._wakeups.forget(claim_id)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """Return when the claim should ask again."""
        if not self._is_listening():
            deadline = min(deadline, self._clock.now() + UNHEARD_POLL_SECONDS)
        self._wakeups.wait(claim.id, deadline=deadline, subscription=self._subscription)
        if self._refused is not None:
            raise self._refused

    def wake(self, claim_id: str) -> None:
        """Wake a waiting claim."""
        self._wake([claim_id])

    def stop(self) -> None:
        """Stop listening; the runs end even if this call is interrupted, and another call waits."""
        self._listening = None  # ends a run in progress even if the rest is interrupted
        with self.state:
            runs, subscription = list(self._runs), self._subscription
        for one in runs:
            one.stopping.set()
        if subscription is not None:
            subscription.kick()
        for one in runs:
            if one.task is not None:
                one.task.join()
            elif one.has_begun:
                runtime.wait_for(one.ended, deadline=FOREVER, clock=self._clock)
        self._heartbeats.stop()

    def after_fork_in_child(self) -> None:
        """Start afresh: none of the parent's claims wait here."""
        self.__init__(self._transport, self._keys, self._clock)  # type: ignore[misc]

    # -- the background ----------------------------------------------------------------

    def _is_listening(self) -> bool:
        """Start a background task if none is running; return whether one is running now."""
        listening = self._listening
        if listening is not None and listening.is_alive():
            return True
        with self.state:
            if self._listening is not None and self._listening.is_alive():
                return True
            self._refused = None
            run = self._listening = InboxRun()
            self._runs.add(run)
            try:
                run.task = runtime.spawn(partial(self._run, run), name="lockfast-inbox")
            except RuntimeError as error:
                _log.warning("no thread for the inbox; waiting claims ask by themselves: %s", error)
                self._listening = None
                self._runs.discard(run)
                return False
        return True

    def _is_wanted(self, run: InboxRun) -> bool:
        return self._listening is run and not run.stopping.is_set()

    def _run(self, run: InboxRun) -> None:
        run.has_begun = True
        try:
            self._keep_listening(run)
        finally:
            with self.state:
                self._runs.discard(run)
                if self._listening is run:
                    self._listening = None
                left = list(self.lines.waiting)
            run.ended.set()
            # Most likely the task was cancelled along with every other task. Wake the claims that
            # still wait, because nothing else would, and they would sleep for ever.
            self._wake(left)

    def _keep_listening(self, run: InboxRun) -> None:
        attempt = 0
        while self._is_wanted(run):
            with self.state:
                if not self.lines.waiting:
                    # No claim waits, so end the task; otherwise closing would have to wait for a
                    # needless attempt to subscribe.
                    self._listening = None
                    return
            try:
                if not self._listen(run):
                    return
                attempt = 0
                continue
            except LockError as error:
                _log.debug("no inbox: %s", error)
                if isinstance(error, ConfigurationError):
                    self._refused = error
            except Exception as error:  # noqa: BLE001 - the waiters rely on this loop
                # For example, a credential provider failed, no descriptors are left, or this is a
                # bug of our own.
                _log.warning("the inbox failed, and is opened again: %r", error, exc_info=True)
            # Wake the waiting claims, which then ask the store and learn what is wrong.
            self._wake_all(run)
            pause = delay(attempt, jitter=self._clock.jitter())
            attempt += 1
            until = self._clock.now() + pause
            runtime.wait_for(run.stopping, deadline=until, clock=self._clock)

    def _listen(self, run: InboxRun) -> bool:
        """Open the inbox and serve it; return true if it has to be opened again."""
        number = self._opened + 1
        # Use a new name each time, because messages still on their way to the old name are
        # outdated.
        name = _new_name(number)
        deadline = self._clock.now() + HEARTBEAT_TIMEOUT_SECONDS
        subscription = self._transport.subscribe(
            self._keys.inbox(name), self._on_message, deadline=deadline
        )
        try:
            # Announce the name only now, because a message to a channel without a subscriber would
            # be lost, and the claim would not be woken.
            self._opened, self.name = number, name
            self._subscription, self._refused = subscription, None
            self._wake_all(run)
            return self._attend(subscription, run)
        finally:
            if self._subscription is subscription:
                self._subscription = None
            subscription.close()

    def _attend(self, subscription: RedisSubscription, run: InboxRun) -> bool:
        """Listen and send heartbeats while claims wait; return true if the connection broke."""
        idle_since = self._clock.now()
        while self._is_wanted(run):
            if self._woken_later:
                with self.state:
                    found, self._woken_later = self._woken_later, []
                self._wake_each(found, run)
            now = self._clock.now()
            with self.state:
                due_at = self.lines.due_at()
                # Set this under the lock, so that a claim that joins a line later sees when
                # this task will wake up.
                self._checks_at = until = min(due_at, now + HEARTBEAT_SECONDS)
            if now >= due_at:
                self._heartbeats.beat(now)
                continue
            if self.lines.waiting:
                idle_since = now
            elif now - idle_since > INBOX_IDLE_SECONDS:
                with self.state:
                    if not self.lines.waiting:
                        self._listening = None
                        return False
            if not subscription.listen(until=until):
                return True
            if self._clock.now() > until + OVERSLEPT_SECONDS:
                # The machine was suspended, so the claims' timers are late and their state is
                # outdated.
                self._wake_all(run)
        return False

    # -- wakeups -----------------------------------------------------------------------

    def _on_message(self, message: bytes) -> None:
        try:
            if message[:1] == b"*":
                self._on_dismissal(self._keys.name_of(message[1:]))
            else:
                self._on_admission(redis_replies.wakeup_message(message))
        except ValueError:
            _log.debug("not a message of ours in the inbox: %r", message[:40])

    def _on_dismissal(self, name: str) -> None:
        with self.state:
            found = self.lines.of_name(name)
        self.wake_later(found)

    def _on_admission(self, wakeup: redis_replies.WakeupMessage) -> None:
        with self.state:
            waiting = self.lines.waiting.get(wakeup.claim)
            if waiting is None:
                self._early[wakeup.claim] = wakeup
                if len(self._early) > WAKE_BATCH:
                    del self._early[next(iter(self._early))]
                return
            waiting.deliver(wakeup)
        self._wakeups.wake(wakeup.claim)

    def wake_later(self, claims: list[str]) -> None:
        """Make the background task wake the claims, and check again what is due."""
        with self.state:
            self._woken_later += claims
        if (subscription := self._subscription) is not None:
            subscription.kick()

    def _wake_all(self, run: InboxRun) -> None:
        with self.state:
            found = list(self.lines.waiting)
        self._wake_each(found, run)

    def _wake_each(self, claims: list[str], run: InboxRun) -> None:
        """Wake the claims, a few at a time."""
        for i in range(0, len(claims), WAKE_BATCH):
            if i:
                until = self._clock.now() + WAKE_BATCH_PAUSE_SECONDS
                runtime.wait_for(run.stopping, deadline=until, clock=self._clock)
            self._wake(claims[i : i + WAKE_BATCH])

    def _wake(self, claims: list[str]) -> None:
        """Wake claims without a message; in threads, interrupt the thread that reads for all."""
        for claim_id in claims:
            self._wakeups.wake(claim_id)
        if claims and (subscription := self._subscription) is not None:
            subscription.wake_to_check()


def _new_name(number: int) -> str:
    """Return a name that was never used, numbered so that the scripts can find the latest."""
    return f"{number}.{os.urandom(8).hex()}"
