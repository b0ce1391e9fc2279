"""The background of one client, which renews its leases and reports their loss.

One task or thread watches all leases, never one per lock. Leases that are due together are renewed
together, by a task or thread that exists only for this purpose. The watching task or thread itself
must not wait for the store, because then nothing would report the leases that end meanwhile.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING

from lockfast.core.renewal import (
    HELD,
    RENEW_TOGETHER_FRACTION,
    after_renewal,
    due_after,
    retry_after_silence,
)
from lockfast.errors import LockError, OutcomeUnknown
from lockfast.events import AtRisk, Renewed, SafeAgain
from lockfast.model import FOREVER, Proven, Renewal
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.client._async.client import AsyncClient
    from lockfast.client._async.hold import AsyncHold
    from lockfast.events import LossReason
    from lockfast.model import Claim

WATCHDOG_MIN_SLEEP_SECONDS = 0.0005
CANCEL_LATENCY_SECONDS = 0.05
"""Interval at which `cancel` events are checked, in seconds. They have to be polled, because an
event of the application does not notify us when it is set. The check sends no request.
"""
WATCHDOG_IDLE_SECONDS = 30.0
"""Time with nothing to watch after which the background ends, in seconds; it restarts on demand."""


class AsyncWatchdog:
    """Renews leases that are due, and reports those that are lost."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.watched: dict[AsyncHold, None] = {}
        """The watched holds; used only under the client's state lock."""
        self._renewing: set[runtime.Task] = set()
        self.ends_first: float = FOREVER
        """When the first of the watched holds ends; `notice` has nothing to report before then."""
        self.wakes_at: float = FOREVER
        """When the background is due to run next; if that time is long past, something kept it from
        running.
        """
        self._kick: runtime.WakeEvent | None = None
        self._task: runtime.TasklessRunner | None = None
        self._is_stopping = False
        self._must_renew_all = False
        self._is_dropped = False
        self.was_used: bool = False
        """Whether the background has ever had something to do."""

    # -- called by the client ----------------------------------------------------------

    def watch(self, hold: AsyncHold) -> None:
        """Watch the hold from now on; call this under the client's state lock."""
        self.watched[hold] = None
        if hold.ends_at < self.ends_first:  # noqa: PLR1730 - a call costs more
            self.ends_first = hold.ends_at
        if self._task is None or hold.next_look_at < self.wakes_at or not self._task.is_alive():
            self._run_before(hold.next_look_at)

    def hurry(self) -> None:
        """Renew all leases now, because the backend suspects a loss; callable from any thread."""
        self._must_renew_all = True
        self.kick()

    def kick(self) -> None:
        """Make the background check its holds now, if it runs; callable from any thread."""
        kick = self._kick
        if kick is not None:
            kick.set()

    def end_when_idle(self) -> None:
        """Let the background end as soon as it has nothing to watch; callable from any thread.

        As long as the background runs, it keeps the client and its connections alive. It starts
        again when needed.
        """
        self._is_dropped = True
        self.kick()

    def wake(self) -> None:
        """Make the background check its holds now; start the background if it does not run."""
        with self._client.state:
            self._run_before(-FOREVER)

    def notice(self, now: float | None = None) -> None:
        """Report every loss that is due by the clock, before a call of the application returns.

        Usually the background has already reported the loss, but not if the process, the loop or
        the whole machine was suspended.
        """
        if now is None:
            now = self._client.clock.now()
        if now >= self.ends_first:
            self._look(now)

    def settle(self, hold: AsyncHold, answer: Renewal | Proven, *, sent_at: float) -> None:
        """Apply the reply to a request that was sent at `sent_at`."""
        now = self._client.clock.now()
        start = sent_at
        if isinstance(answer, Proven):
            outcome, start = Renewal.RENEWED, answer.counted_from
        elif answer is Renewal.RENEWED and hold.life.is_proven:
            # The reply does not say when the ttl starts. Counting from the request would mean to
            # trust a deposed leader.
            outcome = Renewal.UNKNOWN
        else:
            outcome = answer
        until = after_renewal(hold.until, outcome, sent_at=start, now=now, ttl=hold.grant.ttl)
        self._apply(hold, outcome, until=until, sent_at=start, now=now)

    def _apply(
        self,
        hold: AsyncHold,
        outcome: Renewal,
        *,
        until: float | None,
        sent_at: float,
        now: float,
    ) -> None:
        if until is None:
            hold.lose(_reason(hold, outcome, now))
            return
        margin, is_safe_again = hold.until - now, False
        with self._client.state:
            if hold.hold_state is not HELD:
                return
            hold.until = until
            if outcome is Renewal.UNKNOWN:
                hold.unanswered = True
                if hold.due < FOREVER:
                    hold.due = retry_after_silence(now=now, ttl=hold.span)
            else:
                hold.unanswered, hold.asked_at = False, None
                hold.span = ttl = hold.grant.ttl
                # After a late reply, or with an old proof of the session, the lease may still be at
                # risk.
                if not hold.is_at_risk(now):
                    is_safe_again, hold.at_risk_reported = hold.at_risk_reported, False
                    hold.at_risk_noted = False
                # The proof of a session may be so old that a renewal is due already. Then renew
                # soon, but not at once, which could repeat without end.
                due = max(
                    due_after(sent_at=sent_at, ttl=ttl, life=hold.life),
                    retry_after_silence(now=now, ttl=ttl),
                )
                hold.due = due if hold.renews else FOREVER
            hold.plan()
        if is_safe_again:
            hold.tell(SafeAgain, (until - now,))
        if outcome is Renewal.RENEWED:
            hold.tell(Renewed, (margin,))

    async def stop(self) -> None:
        """End the background."""
        self._is_stopping = True
        with self._client.state:
            task, kick = self._task, self._kick
        if kick is not None:
            kick.set()
        if task is not None:
            await task.join()
        for renewal in list(self._renewing):
            await renewal.join()

    def after_fork_in_child(self) -> None:
        """Start empty in the child, because the parent renews its own leases."""
        self.__init__(self._client)  # type: ignore[misc]

    # -- the background ----------------------------------------------------------------

    def _run_before(self, moment: float) -> None:
        if self._is_stopping:
            return
        if self._task is None or not self._task.is_alive():
            self.was_used = True
            self._kick = kick = runtime.WakeEvent()
            self.wakes_at = FOREVER
            self._task = runtime.spawn_taskless(partial(self._run, kick), name="lockfast-watchdog")
        elif moment < self.wakes_at and self._kick is not None:
            # Wake the background only if it would sleep too long, because waking a thread at every
            # acquire would cost more than the acquire itself.
            self._kick.set()

    async def _run(self, kick: runtime.WakeEvent) -> None:
        client = self._client
        idle_since = client.clock.now()
        # An interrupted start can leave a run that is not recorded. That run ends here, once the
        # event of another run has replaced its own.
        while kick is self._kick and not self._is_stopping:
            kick.clear()
            if self._is_stopping:
                break  # `stop` came between the check above and `clear`
            now = client.clock.now()
            client.clear_up()
            client.cleanup_queue.resume()
            due, wake_at = self._look(now)
            if client.wake_cancelled():
                wake_at = min(wake_at, now + CANCEL_LATENCY_SECONDS)
                idle_since = now
            if self._must_renew_all:
                self._must_renew_all = False
                with client.state:
                    due = list(self.watched)
            if due:
                self._begin_renewing(due, now)
                continue
            with client.state:
                if self.watched:
                    idle_since = now
                elif self._is_dropped or now - idle_since > WATCHDOG_IDLE_SECONDS:
                    # end early only once, so that a lock that is still in use works as before
                    self._is_dropped = False
                    self._task = None
                    return
                # Always sleep a little, so that a mistake here cannot become a busy loop.
                longest = now + client.clock.longest_sleep
                self.wakes_at = max(now + WATCHDOG_MIN_SLEEP_SECONDS, min(wake_at, longest))
            await runtime.wait_for(kick, deadline=self.wakes_at, clock=client.clock)

    def _look(self, now: float) -> tuple[list[AsyncHold], float]:
        """Report losses and risks by the clock; return holds to renew, and when to look next."""
        due: list[AsyncHold] = []
        lost: list[tuple[AsyncHold, LossReason]] = []
        at_risk: list[AsyncHold] = []
        wake_at = ends_first = FOREVER
        with self._client.state:
            for hold in self.watched:
                if now >= hold.ends_at:
                    lost.append((hold, "expired" if now >= hold.until else "max_hold"))
                    continue
                if (
                    (hold.unanswered or now >= hold.next_look_at)
                    and not hold.at_risk_noted
                    and hold.is_at_risk(now)
                ):
                    hold.at_risk_noted = True
                    hold.plan()
                    at_risk.append(hold)
                # Use plain comparisons, because this runs for each of ten thousand leases.
                if hold.ends_at < ends_first:  # noqa: PLR1730 - a call costs more
                    ends_first = hold.ends_at
                if hold.next_look_at < wake_at:  # noqa: PLR1730
                    wake_at = hold.next_look_at
            if wake_at <= now:
                due = [
                    one
                    for one in self.watched
                    if one.due <= now + RENEW_TOGETHER_FRACTION * one.span and not one.is_renewing
                ]
            self.ends_first = ends_first
        for hold in at_risk:
            self._report_at_risk(hold, now)
        self._tell(lost)
        return due, wake_at

    def _report_at_risk(self, hold: AsyncHold, now: float) -> None:
        """Report that the lease is at risk, unless it was renewed or lost in the meantime.

        The hook of another lease may delay this report. A late report would give the impression
        that the lease is still at risk.
        """
        with self._client.state:
            is_so = hold.at_risk_reported = hold.at_risk_noted and hold.hold_state is HELD
        if is_so:
            hold.tell(AtRisk, (hold.until - now,))

    def _tell(self, lost: list[tuple[AsyncHold, LossReason]]) -> None:
        """Report each loss, even if the hook for another loss raises."""
        while lost:
            hold, reason = lost.pop(0)
            try:
                hold.lose(reason)
            except BaseException:
                # A hook exits the program, in a call by the application. Report the other losses
                # before the exit.
                self._tell(lost)
                raise

    def _begin_renewing(self, due: list[AsyncHold], now: float) -> None:
        for hold in due:
            if hold.is_abandoned():
                self._abandon(hold)
        due = [hold for hold in due if hold.due < FOREVER]
        with self._client.state:
            for hold in due:
                hold.is_renewing = True
                if hold.asked_at is None:
                    hold.asked_at = now
                hold.plan()
            self._renewing = {one for one in self._renewing if one.is_alive()}
        if not due:
            return
        try:
            renewal = runtime.spawn(partial(self._renew_all, due), name="lockfast-renewal")
        except RuntimeError as error:
            # No thread can be started right now, so act as if the store had not answered.
            self._client.logger.warning("leases could not be renewed: %s", error)
            self._answered([(hold, Renewal.UNKNOWN) for hold in due], sent_at=now)
        else:
            self._renewing.add(renewal)

    async def _renew_all(self, due: list[AsyncHold]) -> None:
        # Renew in batches, each with its own deadline. No request timeout is long enough for a
        # hundred thousand leases, and the replies to the first batch must take effect before the
        # last batch is sent.
        client, left = self._client, due
        size = client.backend.renewals_at_once
        try:
            while left:
                some, left = left[:size], left[size:]
                await self._renew(some, sent_at=client.clock.now())
        finally:
            if left:  # after a cancellation, for example; the rest is renewed later
                unknown = [(hold, Renewal.UNKNOWN) for hold in left]
                self._answered(unknown, sent_at=client.clock.now())

    async def _renew(self, due: list[AsyncHold], *, sent_at: float) -> None:
        client = self._client
        # A reply that arrives after the last of these leases has ended is useless.
        deadline = min(sent_at + client.request_timeout, max(hold.until for hold in due))
        grants = [hold.grant for hold in due]
        unknown = [(hold, Renewal.UNKNOWN) for hold in due]
        try:
            answers = await client.backend.renew(grants, deadline=deadline)
            outcomes: Sequence[tuple[AsyncHold, Renewal | Proven]] = list(
                zip(due, answers, strict=True)
            )
        except LockError as error:
            # Whatever the error, the store may or may not have renewed, so the old deadline stays
            # valid.
            client.dispatcher.failed("renew", error, _one_of(due))
            outcomes = unknown
        except Exception:
            # This is a defect in the backend, which may concern only one lease. The other leases
            # must live on.
            client.logger.exception("the backend failed in a renewal")
            outcomes = unknown
        except BaseException:
            # This task was cancelled, perhaps along with all other tasks. Another task will renew
            # the leases.
            self._answered(unknown, sent_at=sent_at)
            raise
        silent = [hold for hold, outcome in outcomes if outcome is Renewal.UNKNOWN]
        if silent and outcomes is not unknown:
            silence = OutcomeUnknown("a renewal was not answered")
            client.dispatcher.failed("renew", silence, _one_of(silent))
        self._answered(outcomes, sent_at=sent_at)

    def _answered(
        self, outcomes: Sequence[tuple[AsyncHold, Renewal | Proven]], *, sent_at: float
    ) -> None:
        for hold, outcome in outcomes:
            hold.is_renewing = False
            if self._client.dispatcher.away and outcome is not Renewal.UNKNOWN:
                self._client.dispatcher.answered(hold.grant.claim)
            self.settle(hold, outcome, sent_at=sent_at)
        with self._client.state:
            self._run_before(min(hold.next_look_at for hold, _ in outcomes))

    def _abandon(self, hold: AsyncHold) -> None:
        with self._client.state:
            hold.renews = False
            hold.due = FOREVER
            hold.plan()
        why = (
            "neither it nor its lock can be reached"
            if hold.lock() is None
            else f"the {runtime.OWNER} that acquired it has ended, and nobody has kept it"
        )
        message = (
            f"the lease on {hold.grant.claim.name!r} was abandoned: {why}, so it is no longer "
            "renewed; keep the lease, or use `with`"
        )
        try:
            warnings.warn(message, ResourceWarning, stacklevel=2)
        except ResourceWarning:
            # The application turns warnings into errors, and no caller could catch an error here,
            # so write the warning to the log.
            self._client.logger.warning(message)


def _one_of(holds: Sequence[AsyncHold]) -> Claim | None:
    """Return the claim that a request concerned, or None if it concerned several claims."""
    return holds[0].grant.claim if len(holds) == 1 else None


def _reason(hold: AsyncHold, outcome: Renewal, now: float) -> LossReason:
    if outcome is Renewal.BROKEN:
        return "broken"
    if outcome is Renewal.LOST and now < hold.until:
        return hold.life.loss_reason
    return "expired"
