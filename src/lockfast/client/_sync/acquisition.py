# Generated from src/lockfast/client/_async/acquisition.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a claim becomes a hold: try, join the line, wait for a wakeup, try again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lockfast.client._sync.deadlock import refuse_cycle, warn_of_parent_owner
from lockfast.client._sync.handle import Handle
from lockfast.client._sync.hold import Hold
from lockfast.client._sync.lease import Lease
from lockfast.core.backoff import OutagePatience, delay, spread
from lockfast.core.event_notes import next_mention, still_waiting, withdrawal_reason_of
from lockfast.core.renewal import OVER, check_grant, trusted_until
from lockfast.errors import (
    BackendError,
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
    NotAcquired,
    OutcomeUnknown,
)
from lockfast.events import Acquired, Skipped, TimedOut, Waiting, Withdrawn
from lockfast.model import FOREVER, Grant, Held
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.client._sync.client import Client
    from lockfast.client._sync.lock import Lock
    from lockfast.events import WithdrawalReason
    from lockfast.model import Claim

REFUSALS = (BackendError, ConfigurationError)
"""Errors with which the store or its transport reports that a request was not carried out."""

LOST_WAKEUP_POLL_SECONDS = 30.0
"""Time in seconds after which a waiter asks again, if the store does not say when to ask."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The result of an acquire that timed out: the store's last reply, and the time waited."""

    held: Held
    waited: float


class Cancel(Protocol):
    """A signal that ends a wait from outside, such as a `threading` or `asyncio` event."""

    def is_set(self) -> bool:
        """Return whether the wait should end."""
        ...


class WhileWaiting(Protocol):
    """Something that a waiter does from time to time while it is in line."""

    def look(self) -> float:
        """Act once; return when to call this again, or raise to end the wait."""
        ...


class AcquireGroup:
    """Several acquires whose leases reach the caller in one instant, or not at all.

    While `owes` is true, no lease of the group has reached the caller yet.
    """

    owes = True


class Acquisition:
    """One call to acquire, until its claim holds the name or nothing is left of the claim.

    The object exists before the first request and belongs to the calling frames. If an interrupt
    strikes where nothing can clean up, the object is dropped while it still owes a cleanup, and the
    client's background then does the cleanup.
    """

    # These are class attributes so that they exist if `__init__` was interrupted, and because most
    # claims are granted at once.
    owes: bool = False
    _together: AcquireGroup | None = None
    _is_unanswered = False
    stands: bool = False
    has_ended: bool = False
    """Whether something ended the acquire before it returned. An acquire that has ended sends no
    more requests, even if the object lives on.
    """
    _outage: OutagePatience | None = None
    _answered_at: float | None = None
    _held = Held(())
    _withdrawal_error: Exception | None = None
    _is_wait_reported = False
    _mention_after = 0.0
    """How long the wait must have lasted, in seconds, before the log mentions it next; 0 before the
    first wait.
    """
    cancel: Cancel | None = None
    is_ended_only_by_loss: bool = False
    """Whether `cancel` is set only if a lease that is acquired together with this one is lost."""
    hold: Hold | None = None
    handles: tuple[Handle, ...] = ()
    looking: WhileWaiting | None = None

    def __init__(
        self,
        client: Client,
        lock: Lock,
        *,
        timeout: float | None,
        cancel: Cancel | None = None,
        together: AcquireGroup | None = None,
        claim: Claim | None = None,
    ) -> None:
        self._client = client
        if together is not None:
            self._together = together
        self._lock = lock
        context = client.loop_guard.context()
        self.context: runtime.Context = context
        self.started: float = client.clock.now()
        self._deadline = FOREVER if timeout is None else self.started + timeout
        self._queues = queues = timeout is None or timeout > 0
        if cancel is not None:
            self.cancel = cancel
        self.claim: Claim = claim or client.new_claim(lock, context=context, queues=queues)

    def leave_behind(self) -> None:
        """Let the watchdog end the claim or its lease, because this acquire was interrupted.

        Without this call, the same would happen once the frames of the acquire are gone. But the
        code that caught the interrupt keeps these frames in its traceback, and may ask for the same
        lock before it drops the traceback.
        """
        # A finalizer calls this method too, perhaps in the middle of a step that another lock
        # protects, so do no more here than necessary.
        self.has_ended = True
        self.stands = False  # as in `_withdraw`
        if self.owes and (self._together is None or self._together.owes):
            self._client.left_behind(self)
            self.owes = False  # `__del__` must not hand it over again

    def __del__(self) -> None:
        self.leave_behind()

    def clear_up(self) -> None:
        """Leave nothing behind in the store; runs in the background, because the caller is gone."""
        for handle in self.handles:
            self._client.leave(handle)
        if not self.handles and not self._is_inherited():
            if not self._disown():
                self._report_withdrawn("cancelled")
            self._client.cleanup_queue.withdraw_later(self.claim)

    def _disown(self) -> bool:
        """Drop the hold of a claim that is about to be withdrawn; return whether it had one."""
        hold = self.hold
        if hold is None or hold not in self._client.holds.on(self.claim.name):
            return False
        self._client.remove(hold)
        return hold.end(OVER, self._client.clock.now())

    def lease_on(self, hold: Hold) -> Lease:
        """Return a lease on the hold; until the caller has the lease, this acquire must end it."""
        handle = Handle(hold, self._lock.ref, self._together)
        with self._client.state:
            self.handles = (handle,)
            self.owes = True
            hold.add(handle)
            self._lock.keep(handle)
        return Lease(handle)

    def run(self) -> Lease | Refused:
        """Return a lease, or Refused if the time is up; any other outcome is raised.

        If no lease is returned, the claim no longer holds or waits, or its withdrawal continues in
        the background.
        """
        client, sent_at = self._client, self.started
        if client.holds.may_have(self._lock.name):
            client.enter()
            lease = self._lock.reentered(self)
            if lease is not None:
                return lease
        client.register_acquire(self)
        try:
            ended: Lease | Refused | None = None
            # The whole wait runs in one frame, because waking a task costs time for each of its
            # frames.
            while ended is None:
                self.owes = True
                was_unanswered, self._is_unanswered = self._is_unanswered, True
                try:
                    answer = client.backend.try_acquire(
                        self.claim,
                        deadline=client.acquire_deadline(sent_at, ends_at=self._deadline),
                    )
                except LockError as error:
                    client.dispatcher.failed("acquire", error, self.claim)
                    self._retry_or_raise(error, was_unanswered=was_unanswered)
                else:
                    self._is_unanswered = was_unanswered
                    hold = self._believed(answer, sent_at)
                    ended = self._wait(answer) if hold is None else self.lease_on(hold)
                sent_at = client.clock.now()
        except BaseException as error:
            # However the acquire ends, even by a cancellation or an interrupt, it must leave
            # nothing behind in the store. If the acquire already has a handle, ending the handle is
            # enough.
            if not self.handles:
                self._withdraw_after(error)
            self.leave_behind()
            raise
        finally:
            client.unregister_acquire(self)
        return ended

    def _withdraw_after(self, error: BaseException) -> None:
        self._report_withdrawn(withdrawal_reason_of(error))
        if not self.owes:
            return
        if not isinstance(error, OutcomeUnknown):
            was_unanswered = self._is_unanswered
            is_done = runtime.shield(self._withdraw())
            if was_unanswered and not is_done and isinstance(error, REFUSALS):
                # The store refused only the repeat, and may still grant an earlier copy of the
                # request.
                raise OutcomeUnknown(
                    f"an earlier request for {self._lock.name!r} was not answered, and its "
                    f"withdrawal is being retried in the background: {error}",
                    name=self._lock.name,
                    claim=self.claim.id,
                ) from error
            return
        error.claim = self.claim.id
        if runtime.shield(self._withdraw()):
            # The store has confirmed the withdrawal, so nothing was acquired and nothing is left.
            raise BackendUnavailable(
                f"{error}; our claim to {self._lock.name!r} was withdrawn, "
                "so it can be tried again",
                name=self._lock.name,
            ) from error
        error.about(self._lock.name)

    def _give_up(self) -> Refused:
        """Leave the line, because the time is up."""
        if self._queues and not runtime.shield(self._withdraw()):
            raise OutcomeUnknown(
                f"the store has not confirmed that our claim to {self._lock.name!r} is withdrawn "
                f"({self._withdrawal_error}); the withdrawal is being retried in the background",
                name=self._lock.name,
                claim=self.claim.id,
            ) from self._withdrawal_error
        self.owes = False  # withdrawn, or the claim never joined the line
        self._client.watchdog.notice()
        return self._refused()

    def _refused(self) -> Refused:
        # The holders' ages have grown since the store reported them.
        now = self._client.clock.now()
        since = now - (self._answered_at or now)
        # If the caller did not want to wait, the delay of a slow store does not count as waiting.
        waited = now - self.started if self._queues else 0.0
        self._is_wait_reported = False  # before the event, as in `_report_withdrawn`
        if self._queues:
            self._client.emit_claim(TimedOut, self.claim, (waited, self._held.place))
        else:
            self._client.emit_claim(Skipped, self.claim, ())
        return Refused(self._held.after(since), waited)

    def _report_waiting(self, place: int | None) -> None:
        if self._client.dispatcher.away:
            self._client.dispatcher.answered(self.claim)
        if not self._is_wait_reported:
            self._is_wait_reported = True
            self._client.emit_claim(Waiting, self.claim, (place,))

    def _report_withdrawn(self, reason: WithdrawalReason) -> None:
        self._is_wait_reported = False
        waited = self._client.clock.now() - self.started
        self._client.emit_claim(Withdrawn, self.claim, (waited, reason))

    def _wait(self, answer: Grant | Held) -> Refused | None:
        """Wait until it is time to ask again; return Refused once the timeout has passed."""
        if isinstance(answer, Grant):
            self._withdraw_and_restart()  # the grant came too late to be trusted
            return None
        if not isinstance(answer, Held):
            raise BackendMisbehaved(
                f"the backend answered {answer!r} to an acquire, neither Grant nor Held",
                name=self._lock.name,
            )
        client, clock = self._client, self._client.clock
        self._answered_at = now = clock.now()
        self._outage = None
        if self._has_lost_its_place(answer):
            self._start_over()
            return None
        is_first = not self._held.holders and self._queues
        self._held = answer
        self.stands = True
        if now >= self._deadline or not self._queues:
            return self._give_up()
        if is_first:
            refuse_cycle(client, self, place=answer.place, left=self._deadline - now)
            warn_of_parent_owner(client, self._lock.name)
        self._report_waiting(answer.place)
        until = self._next_request_at(answer, now)
        client.backend.wait(self.claim, deadline=until)
        self._refuse_ended()
        return self._give_up() if clock.now() >= self._deadline else None

    def _next_request_at(self, answer: Held, now: float) -> float:
        retry_in = (
            LOST_WAKEUP_POLL_SECONDS if answer.retry_in is None else max(0.0, answer.retry_in)
        )
        until = min(self._deadline, now + spread(retry_in, jitter=self._client.clock.jitter()))
        if self._client.logger.isEnabledFor(logging.INFO):
            until = min(until, self._log_waiting(answer, now))
        return until if self.looking is None else min(until, self.looking.look())

    def _log_waiting(self, answer: Held, now: float) -> float:
        """Log that the claim still waits, once the wait has lasted long; return when to log next.

        The acquire asks the store again by then, so that the log line is based on a new reply.
        """
        waited, after = now - self.started, self._mention_after or next_mention(0.0)
        if waited >= after:
            said = still_waiting(self._lock.name, answer, waited=waited)
            self._client.logger.info("%s", said)
            after = next_mention(waited)
        self._mention_after = after
        return self.started + after

    def _has_lost_its_place(self, answer: Held) -> bool:
        """Return whether a claim known to the store has lost its place, so that waiting is useless.

        An operator may have broken a hold before the claimant learned of the grant.
        """
        is_repeat = self.stands or self._is_unanswered
        return (
            is_repeat
            and answer.place is None
            and self._queues
            and self._client.backend.capabilities.fair
        )

    def _start_over(self) -> None:
        """Continue with a new claim; the old claim no longer holds or waits, and never will."""
        if self._is_wait_reported:
            self._report_withdrawn("replaced")
        self.claim = self._client.new_claim(self._lock, context=self.context, queues=self._queues)
        self._is_unanswered = self.stands = False

    def _is_inherited(self) -> bool:
        """Return whether the claim was made before a fork, and so belongs to the parent process."""
        return self.claim.client in self._client.earlier_ids

    def restart_in_child(self) -> None:
        """Continue with a claim of our own, if a signal handler forked and this is the child.

        The earlier claim belongs to the parent, and so does any grant of that claim.
        """
        self.owes = self._is_wait_reported = False
        self._start_over()

    def _retry_or_raise(self, error: LockError, *, was_unanswered: bool) -> None:
        """Pause until the failed request is worth repeating, or raise the error."""
        if isinstance(error, OutcomeUnknown):
            # A repeat is idempotent, so one lost reply costs a round trip and no error.
            self._pause_or_raise(error)
            return
        # An unreadable reply does not show whether the request was executed.
        self._is_unanswered = was_unanswered or isinstance(error, BackendMisbehaved)
        was_heard = was_unanswered or self._answered_at is not None
        if isinstance(error, BackendUnavailable) and was_heard:
            self._pause_or_raise(error)
            return
        if isinstance(error, BackendUnavailable):
            self.owes = False  # nothing was ever sent
        # Otherwise the store refused the claim, so the claim neither holds nor waits.
        raise error.about(self._lock.name)

    def _pause_or_raise(self, error: LockError) -> None:
        """Pause before asking again, or raise the error."""
        clock = self._client.clock
        now = clock.now()
        # Do not count from the last reply, because a waiter that was told when to ask again may
        # have sent nothing for a long time.
        outage = self._outage or OutagePatience(since=now)
        if not outage.should_retry(
            now=now,
            deadline=self._deadline,
            ttl=self.claim.ttl,
            was_answered=self._answered_at is not None,
        ):
            raise error.about(self._lock.name)
        self._outage = outage.again()
        pause = delay(outage.failures, jitter=clock.jitter())
        runtime.wait_for(
            runtime.WakeEvent(), deadline=min(now + pause, self._deadline), clock=clock
        )
        self._refuse_ended()

    def accept_grant(self, grant: Grant, sent_at: float) -> Hold | None:
        """Return the hold, or None if the grant came too late to be trusted."""
        hold = self._believed(grant, sent_at)
        if hold is None:
            self._withdraw_and_restart()
        return hold

    def _withdraw_and_restart(self) -> None:
        self._withdraw()
        self._start_over()

    def _believed(self, grant: Grant | Held, sent_at: float) -> Hold | None:
        """Return the hold, or None if there is no grant or it came too late to be trusted."""
        if not isinstance(grant, Grant):
            return None
        client = self._client
        if grant.claim.client in client.earlier_ids:
            return None  # the request was the parent's, before the fork
        check_grant(grant, self.claim, life=client.life)
        span = grant.ttl
        if grant.window is not None:
            # When the window ends, the store gives the name to the next claim, however long the ttl
            # is. Only an answered renewal turns the window into a ttl. Without this limit, the two
            # holds would overlap.
            sent_at, span = grant.window.since, min(span, grant.window.seconds)
        elif grant.counted_from is not None:
            sent_at = grant.counted_from
        until = trusted_until(sent_at=sent_at, ttl=span)
        self._answered_at = now = client.clock.now()
        if now >= until:
            return None
        self.hold = hold = Hold(
            client,
            self._lock,
            grant,
            runtime.remember_task(self.context),
            sent_at=sent_at,
            span=span,
            until=until,
            now=now,
        )
        hold.needs_tombstone = self._is_unanswered
        client.add(hold)
        if grant.claim.client in client.earlier_ids:
            client.remove(hold)  # the fork came just before `add`, so it did not disown the hold
            hold.disown()
            return hold  # lost from the start; the parent reports the acquisition
        if client.dispatcher.away:
            client.dispatcher.answered(self.claim)
        waited = now - self.started
        client.emit(Acquired, grant.claim, grant.token, (waited, grant.ttl, hold.renews))
        if now >= client.watchdog.ends_first:
            client.watchdog.notice(now)
        return hold

    def withdraw_unanswered(self) -> bool:
        """Withdraw a claim that was requested together with others, and leave nothing behind."""
        self._is_unanswered = True
        return self._withdraw()

    def _withdraw(self) -> bool:
        """Withdraw the claim; return false if the background has to continue the withdrawal.

        Every error counts as "not done yet". If a permission is revoked for a second, for example,
        the claim must not stay in line, where it would be granted one day.
        """
        client, now = self._client, self._client.clock.now()
        if self._is_inherited():
            self.owes = False
            return True
        self.stands = False  # from now on, a cycle check must not count this as a wait
        self._disown()
        latest = min(now, self._deadline) + client.request_timeout
        try:
            client.backend.withdraw(
                self.claim, deadline=max(now, latest), tombstone=self._is_unanswered
            )
        except Exception as error:  # noqa: BLE001 - logged and retried
            client.cleanup_queue.report_error(error, "withdraw", self.claim)
            # A claim that the store has refused each time is not in any line.
            if self._is_unanswered or self._answered_at is not None:
                client.cleanup_queue.withdraw_later(self.claim)
            self._withdrawal_error = error
            self.owes = False
            return False
        self.owes = False
        return True

    def waits_beyond(self, moment: float) -> bool:
        """Return whether the claim is in line, with no known reason to stop before that moment."""
        is_ending = self._deadline < moment or runtime.is_being_cancelled(self.context)
        return self.stands and not is_ending

    def is_reported_waiting(self) -> bool:
        """Return whether the wait was reported, but its outcome was not reported yet."""
        return self._is_wait_reported and self.hold is None

    def needs_wakeup(self) -> bool:
        """Return whether the wait may have been cancelled; called by the background."""
        try:
            return self.cancel is not None and self.cancel.is_set()
        except (Exception, SystemExit):  # noqa: BLE001 - raised where it is awaited
            # `is_set` is application code, and must not stop the watchdog. The waiter calls it
            # again, and gets the exception then.
            return True

    def _refuse_ended(self) -> None:
        """Raise if the client was closed or the wait was cancelled."""
        self._client.refuse_closed()
        if self.cancel is not None and self.cancel.is_set():
            held = self._held
            raise NotAcquired(
                f"the wait for {self._lock.name!r} was cancelled",
                name=self._lock.name,
                holders=held.holders,
                place=held.place,
            )
