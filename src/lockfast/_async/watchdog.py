"""The background of one client: renews its leases, and tells of loss.

One task or thread looks after all leases, never one per lock. All renewals that are due together
go in one request, in a task or thread that lives as long as it: the one that looks must not
wait for the store, for then nobody would tell of what ends meanwhile.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING

from lockfast.core.holding import HELD
from lockfast.core.renewing import TOGETHER, after_renewal, due_after, due_after_silence
from lockfast.errors import LockError, OutcomeUnknown
from lockfast.events import AtRisk, Renewed, SafeAgain
from lockfast.model import Proven, Renewal
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast._async.client import AsyncClient
    from lockfast._async.hold import AsyncHold
    from lockfast.events import LossReason
    from lockfast.model import Claim

NEVER = float("inf")
SHORTEST_SLEEP = 0.0005
CANCEL_LATENCY = 0.05
"""An event of the application's tells nobody that it was set: while such a wait goes on, it is
looked at so often. No request is sent for it."""
IDLE = 30.0
"""With nothing to watch, the background ends after so long; it starts again when needed."""


class AsyncWatchdog:
    """Renews what is due, tells what is lost."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self.watched: dict[AsyncHold, None] = {}
        """The leases that it looks after; touched under the client's state lock."""
        self._renewing: set[runtime.Task] = set()
        self.ends_first: float = NEVER
        """When the first of them ends: `notice` has nothing to tell before."""
        self.wakes_at: float = NEVER
        """When the background means to look next: if that is long past, it could not."""
        self._kick: runtime.Event | None = None
        self._task: runtime.Lookout | None = None
        self._is_stopping = False
        self._is_hurried = False
        self._is_dropped = False
        self.was_used: bool = False
        """Whether it ever had something to do."""

    # -- called by the shell -----------------------------------------------------------

    def watch(self, hold: AsyncHold) -> None:
        """Look after the lease from now on; under the client's state lock."""
        self.watched[hold] = None
        if hold.ends_at < self.ends_first:  # noqa: PLR1730 - a call costs more
            self.ends_first = hold.ends_at
        if self._task is None or hold.looked_at < self.wakes_at or not self._task.is_alive():
            self._run_before(hold.looked_at)

    def hurry(self) -> None:
        """Renew everything now: the backend has reason to doubt; from any thread."""
        self._is_hurried = True
        self.kick()

    def kick(self) -> None:
        """Let the background look now, if there is one; from any thread."""
        kick = self._kick
        if kick is not None:
            kick.set()

    def end_when_idle(self) -> None:
        """Let the background end as soon as it has nothing to watch; from any thread.

        It keeps the client alive, with its connections, and starts again when it is needed.
        """
        self._is_dropped = True
        self.kick()

    def wake(self) -> None:
        """See to it that the background looks now."""
        with self._client.state:
            self._run_before(-NEVER)

    def notice(self, now: float | None = None) -> None:
        """Tell of every loss that the clock has brought, before the caller's call returns.

        Usually the background has told it already; not if the process, the loop or the
        whole machine was asleep.
        """
        if now is None:
            now = self._client.clock.now()
        if now >= self.ends_first:
            self._look(now)

    def settle(self, hold: AsyncHold, answer: Renewal | Proven, *, sent_at: float) -> None:
        """Let the answer to a request count that was sent at that time."""
        now = self._client.clock.now()
        start = sent_at
        if isinstance(answer, Proven):
            outcome, start = Renewal.RENEWED, answer.counted_from
        elif answer is Renewal.RENEWED and hold.life.is_proven:
            # Nobody knows from when: to count from the request would trust a deposed leader.
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
            if hold.holding is not HELD:
                return
            hold.until = until
            if outcome is Renewal.UNKNOWN:
                hold.unanswered = True
                if hold.due < NEVER:
                    hold.due = due_after_silence(now=now, ttl=hold.span)
            else:
                hold.unanswered, hold.asked_at = False, None
                hold.span = ttl = hold.grant.ttl
                # An answer that came late, or an old proof, leaves it where it was.
                if not hold.is_at_risk(now):
                    is_safe_again, hold.at_risk_told = hold.at_risk_told, False
                    hold.at_risk_noted = False
                # A session's proof may be older than that: then soon, and not at once, for ever.
                due = max(
                    due_after(sent_at=sent_at, ttl=ttl, life=hold.life),
                    due_after_silence(now=now, ttl=ttl),
                )
                hold.due = due if hold.renews else NEVER
            hold.plan()
        if is_safe_again:
            hold.tell(SafeAgain, until - now)
        if outcome is Renewal.RENEWED:
            hold.tell(Renewed, margin)

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
        """Start anew: the parent's thread renews the parent's leases."""
        self.__init__(self._client)  # type: ignore[misc]

    # -- the background ----------------------------------------------------------------

    def _run_before(self, moment: float) -> None:
        if self._is_stopping:
            return
        if self._task is None or not self._task.is_alive():
            self.was_used = True
            self._kick = kick = runtime.Event()
            self.wakes_at = NEVER
            self._task = runtime.spawn_lookout(partial(self._run, kick), name="lockfast-watchdog")
        elif moment < self.wakes_at and self._kick is not None:
            # Only if it would oversleep: waking a thread at every acquire costs more
            # than the acquire.
            self._kick.set()

    async def _run(self, kick: runtime.Event) -> None:
        client = self._client
        idle_since = client.clock.now()
        # One whose start was interrupted runs although nobody knows it: it has another's kick.
        while kick is self._kick and not self._is_stopping:
            kick.clear()
            if self._is_stopping:
                break  # said between the look above and the clearing
            now = client.clock.now()
            client.clear_up()
            client.followups.go_on()
            due, wake_at = self._look(now)
            if client.rouse_cancelled():
                wake_at = min(wake_at, now + CANCEL_LATENCY)
                idle_since = now
            if self._is_hurried:
                self._is_hurried = False
                with client.state:
                    due = list(self.watched)
            if due:
                self._begin_renewing(due, now)
                continue
            with client.state:
                if self.watched:
                    idle_since = now
                elif self._is_dropped or now - idle_since > IDLE:
                    self._is_dropped = False  # once: a lock that lives on is used as before
                    self._task = None
                    return
                # Never less than a moment: a mistake here must not become a busy loop.
                longest = now + client.clock.longest_sleep
                self.wakes_at = max(now + SHORTEST_SLEEP, min(wake_at, longest))
            await runtime.wait_for(kick, deadline=self.wakes_at, clock=client.clock)

    def _look(self, now: float) -> tuple[list[AsyncHold], float]:
        """Tell what the clock has brought; return what is due for renewal, and the next time."""
        due: list[AsyncHold] = []
        lost: list[tuple[AsyncHold, LossReason]] = []
        at_risk: list[AsyncHold] = []
        wake_at = ends_first = NEVER
        with self._client.state:
            for hold in self.watched:
                if now >= hold.ends_at:
                    lost.append((hold, "expired" if now >= hold.until else "max_hold"))
                    continue
                if (
                    (hold.unanswered or now >= hold.looked_at)
                    and not hold.at_risk_noted
                    and hold.is_at_risk(now)
                ):
                    hold.at_risk_noted = True
                    hold.plan()
                    at_risk.append(hold)
                # Plain comparisons: this runs for each of ten thousand leases.
                if hold.ends_at < ends_first:  # noqa: PLR1730 - a call costs more
                    ends_first = hold.ends_at
                if hold.looked_at < wake_at:  # noqa: PLR1730
                    wake_at = hold.looked_at
            if wake_at <= now:
                due = [
                    one
                    for one in self.watched
                    if one.due <= now + TOGETHER * one.span and not one.is_renewing
                ]
            self.ends_first = ends_first
        for hold in at_risk:
            self._tell_at_risk(hold, now)
        self._tell(lost)
        return due, wake_at

    def _tell_at_risk(self, hold: AsyncHold, now: float) -> None:
        """Tell of it, unless it was renewed or lost meanwhile: the hook of another takes time.

        Afterwards it would read as if what comes last were the risk.
        """
        with self._client.state:
            is_so = hold.at_risk_told = hold.at_risk_noted and hold.holding is HELD
        if is_so:
            hold.tell(AtRisk, hold.until - now)

    def _tell(self, lost: list[tuple[AsyncHold, LossReason]]) -> None:
        """Tell each of its loss, whatever the hook of another does."""
        while lost:
            hold, reason = lost.pop(0)
            try:
                hold.lose(reason)
            except BaseException:
                # A hook that exits, in a call of the application: after the others were told.
                self._tell(lost)
                raise

    def _begin_renewing(self, due: list[AsyncHold], now: float) -> None:
        for hold in due:
            if hold.is_abandoned():
                self._abandon(hold)
        due = [hold for hold in due if hold.due < NEVER]
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
            # No thread is to be had just now: as if the store had not answered.
            self._client.logger.warning("leases could not be renewed: %s", error)
            self._answered([(hold, Renewal.UNKNOWN) for hold in due], sent_at=now)
        else:
            self._renewing.add(renewal)

    async def _renew_all(self, due: list[AsyncHold]) -> None:
        # In turns, each with a deadline of its own: no request timeout is long enough for a
        # hundred thousand, and the answers to the first must not wait for the last.
        client, left = self._client, due
        size = client.backend.renewals_at_once
        try:
            while left:
                some, left = left[:size], left[size:]
                await self._renew(some, sent_at=client.clock.now())
        finally:
            if left:  # cancelled, say: they are asked for again
                unknown = [(hold, Renewal.UNKNOWN) for hold in left]
                self._answered(unknown, sent_at=client.clock.now())

    async def _renew(self, due: list[AsyncHold], *, sent_at: float) -> None:
        client = self._client
        # An answer that comes when the last of them has ended is of use to nobody.
        deadline = min(sent_at + client.request_timeout, max(hold.until for hold in due))
        grants = [hold.grant for hold in due]
        unknown = [(hold, Renewal.UNKNOWN) for hold in due]
        try:
            answers = await client.backend.renew(grants, deadline=deadline)
            outcomes: Sequence[tuple[AsyncHold, Renewal | Proven]] = list(
                zip(due, answers, strict=True)
            )
        except LockError as error:
            # Whatever it was, the store may have renewed or not: the old promise stands.
            client.telling.failed("renew", error, _one_of(due))
            outcomes = unknown
        except Exception:
            # A defect of the backend's, and of one lease perhaps: the others must live on.
            client.logger.exception("the backend failed in a renewal")
            outcomes = unknown
        except BaseException:
            # Cancelled, with all other tasks perhaps: it will be renewed by another.
            self._answered(unknown, sent_at=sent_at)
            raise
        silent = [hold for hold, outcome in outcomes if outcome is Renewal.UNKNOWN]
        if silent and outcomes is not unknown:
            silence = OutcomeUnknown("a renewal was not answered")
            client.telling.failed("renew", silence, _one_of(silent))
        self._answered(outcomes, sent_at=sent_at)

    def _answered(
        self, outcomes: Sequence[tuple[AsyncHold, Renewal | Proven]], *, sent_at: float
    ) -> None:
        for hold, outcome in outcomes:
            hold.is_renewing = False
            if self._client.telling.away and outcome is not Renewal.UNKNOWN:
                self._client.telling.answered(hold.grant.claim)
            self.settle(hold, outcome, sent_at=sent_at)
        with self._client.state:
            self._run_before(min(hold.looked_at for hold, _ in outcomes))

    def _abandon(self, hold: AsyncHold) -> None:
        with self._client.state:
            hold.renews = False
            hold.due = NEVER
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
            # Warnings are errors here, and this is nobody's call: say it in the log.
            self._client.logger.warning(message)


def _one_of(holds: Sequence[AsyncHold]) -> Claim | None:
    """Return what a request was about, unless it was about several."""
    return holds[0].grant.claim if len(holds) == 1 else None


def _reason(hold: AsyncHold, outcome: Renewal, now: float) -> LossReason:
    if outcome is Renewal.BROKEN:
        return "broken"
    if outcome is Renewal.LOST and now < hold.until:
        return hold.life.lost_as
    return "expired"
