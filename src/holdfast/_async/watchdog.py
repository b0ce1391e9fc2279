"""The background of one client: renews its leases, tells of loss, finishes withdrawals.

One task or thread for all leases, never one per lock; all renewals that are due together
go in one request.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.core.backoff import delay
from holdfast.core.renewing import TOGETHER, after_renewal, due_after, due_after_silence
from holdfast.errors import LockError
from holdfast.model import AtRisk, Renewal, Renewed
from holdfast.runtime import aio as runtime

if TYPE_CHECKING:
    from holdfast._async.client import AsyncClient
    from holdfast._async.hold import AsyncHold
    from holdfast.model import Claim

NEVER = float("inf")
SHORTEST_SLEEP = 0.0005
IDLE = 30.0
"""With nothing to watch, the background ends after so long; it starts again when needed."""


@dataclass(slots=True)
class Withdrawal:
    """A claim that the store may still know, and until when that could matter."""

    claim: Claim
    due: float
    give_up: float
    attempt: int = 0


class AsyncWatchdog:
    """Renews what is due, tells what is lost."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._watched: dict[AsyncHold, None] = {}
        self._withdrawals: list[Withdrawal] = []
        self._ends_first = NEVER
        self._wake_at = NEVER
        self._kick: runtime.Event | None = None
        self._task: runtime.Task | None = None
        self._is_stopping = False
        self._is_hurried = False

    # -- called by the shell -----------------------------------------------------------

    def watch(self, hold: AsyncHold) -> None:
        """Look after the lease from now on."""
        with self._client.state:
            self._watched[hold] = None
            self._ends_first = min(self._ends_first, hold.ends_at)
            self._run_before(hold.looked_at)

    def unwatch(self, hold: AsyncHold) -> None:
        """Leave the lease alone."""
        with self._client.state:
            self._watched.pop(hold, None)

    def withdraw_later(self, claim: Claim) -> None:
        """Go on withdrawing a claim that the store did not answer for.

        The store forgets it by itself: a hold after its ttl, a waiting claim when its turn
        is not answered. So we give up after twice that. Not so where a session carries it,
        which this client keeps alive: there only an answer ends it, or the session's end.
        """
        now = self._client.clock.now()
        is_carried = self._client.backend.capabilities.ends_by == "session"
        give_up = NEVER if is_carried else now + 2 * claim.ttl + 60
        with self._client.state:
            self._withdrawals.append(Withdrawal(claim, now, give_up))
            self._run_before(now)

    def hurry(self) -> None:
        """Renew everything now: the backend has reason to doubt; from any thread."""
        self._is_hurried = True
        kick = self._kick
        if kick is not None:
            kick.set()

    def notice(self, now: float | None = None) -> None:
        """Tell of every loss that the clock has brought, before the caller's call returns.

        Usually the background has told it already; not if the process, the loop or the
        whole machine was asleep.
        """
        if now is None:
            now = self._client.clock.now()
        if now >= self._ends_first:
            self._look(now)

    def apply(
        self,
        hold: AsyncHold,
        outcome: Renewal,
        *,
        until: float | None,
        sent_at: float,
        now: float,
    ) -> None:
        """Let the answer to a renewal count."""
        if until is None:
            hold.lose(_reason(hold, outcome, now))
            return
        margin = hold.until - now
        with self._client.state:
            if hold.is_over or hold.lost.reason is not None:
                return
            hold.until = until
            if outcome is Renewal.UNKNOWN:
                hold.unanswered = True
                if hold.due < NEVER:
                    hold.due = due_after_silence(now=now, ttl=hold.span)
            else:
                hold.unanswered = hold.at_risk_told = False
                ttl, ends_by = hold.grant.ttl, hold.ends_by
                hold.span = ttl
                due = due_after(sent_at=sent_at, ttl=ttl, ends_by=ends_by)
                hold.due = due if hold.renews else NEVER
            hold.plan()
        if outcome is Renewal.RENEWED:
            self._client.emit(Renewed, hold.grant, margin)

    async def stop(self) -> None:
        """End the background; withdrawals that are open are tried a last time."""
        self._is_stopping = True
        with self._client.state:
            task, kick = self._task, self._kick
            pending, self._withdrawals = self._withdrawals, []
        if kick is not None:
            kick.set()
        if task is not None:
            await task.join()
        for withdrawal in pending:
            await self._withdraw(withdrawal.claim)

    def after_fork_in_child(self) -> None:
        """Start anew: the parent's thread renews the parent's leases."""
        self.__init__(self._client)  # type: ignore[misc]

    # -- the background ----------------------------------------------------------------

    def _run_before(self, moment: float) -> None:
        if self._is_stopping:
            return
        if self._task is None:
            self._kick = runtime.Event()
            self._wake_at = NEVER
            self._task = runtime.spawn(self._run, name="holdfast-watchdog")
        elif moment < self._wake_at and self._kick is not None:
            # Only if it would oversleep: waking a thread at every acquire costs more
            # than the acquire.
            self._kick.set()

    async def _run(self) -> None:
        client, kick = self._client, self._kick
        idle_since = client.clock.now()
        while kick is not None and not self._is_stopping:
            kick.clear()
            if self._is_stopping:
                break  # said between the look above and the clearing
            now = client.clock.now()
            due, wake_at = self._look(now)
            if self._is_hurried:
                self._is_hurried = False
                with client.state:
                    due = list(self._watched)
            if due:
                await self._renew(due)
                continue
            wake_at = min(wake_at, await self._withdraw_due(now))
            with client.state:
                if self._watched or self._withdrawals:
                    idle_since = now
                elif now - idle_since > IDLE:
                    self._task = None
                    return
                # Never less than a moment: a mistake here must not become a busy loop.
                longest = now + client.clock.longest_sleep
                self._wake_at = max(now + SHORTEST_SLEEP, min(wake_at, longest))
            await runtime.wait_for(kick, deadline=self._wake_at, clock=client.clock)

    def _look(self, now: float) -> tuple[list[AsyncHold], float]:
        """Tell what the clock has brought; return what is due for renewal, and the next time."""
        due: list[AsyncHold] = []
        lost: list[tuple[AsyncHold, str]] = []
        at_risk: list[AsyncHold] = []
        wake_at = ends_first = NEVER
        with self._client.state:
            for hold in self._watched:
                if now >= hold.ends_at:
                    lost.append((hold, "expired" if now >= hold.until else "max_hold"))
                    continue
                if (
                    (hold.unanswered or now >= hold.looked_at)
                    and not hold.at_risk_told
                    and hold.is_at_risk(now)
                ):
                    hold.at_risk_told = True
                    hold.plan()
                    at_risk.append(hold)
                # Plain comparisons: this runs for each of ten thousand leases.
                if hold.ends_at < ends_first:  # noqa: PLR1730 - a call costs more
                    ends_first = hold.ends_at
                if hold.looked_at < wake_at:  # noqa: PLR1730
                    wake_at = hold.looked_at
            if wake_at <= now:
                due = [one for one in self._watched if one.due <= now + TOGETHER * one.span]
            self._ends_first = ends_first
        for hold, reason in lost:
            hold.lose(reason)
        for hold in at_risk:
            self._client.emit(AtRisk, hold.grant, hold.until - now)
        return due, wake_at

    async def _renew(self, due: list[AsyncHold]) -> None:
        client = self._client
        abandoned = [hold for hold in due if hold.is_abandoned()]
        for hold in abandoned:
            self._abandon(hold)
        due = [hold for hold in due if hold.due < NEVER]
        if not due:
            return
        sent_at = client.clock.now()
        # Bounded by the first lease that could end meanwhile: its holder must be told then,
        # and this is who tells it.
        deadline = min(sent_at + client.request_timeout, self._ends_first)
        grants = [hold.grant for hold in due]
        try:
            outcomes = await client.backend.renew(grants, deadline=deadline)
        except LockError as error:
            # Whatever it was, the store may have renewed or not: the old promise stands.
            client.logger.debug("renewal not answered: %s", error)
            outcomes = [Renewal.UNKNOWN] * len(due)
        except Exception:
            # A defect of the backend's, and of one lease perhaps: the others must live on.
            client.logger.exception("the backend failed in a renewal")
            outcomes = [Renewal.UNKNOWN] * len(due)
        now = client.clock.now()
        for hold, outcome in zip(due, outcomes, strict=True):
            start = client.backend.counted_from(hold.grant, sent_at=sent_at)
            until = after_renewal(hold.until, outcome, sent_at=start, now=now, ttl=hold.grant.ttl)
            if not hold.is_over:
                self.apply(hold, outcome, until=until, sent_at=start, now=now)

    def _abandon(self, hold: AsyncHold) -> None:
        with self._client.state:
            hold.renews = False
            hold.due = NEVER
            hold.plan()
        message = (
            f"the lease on {hold.grant.claim.name!r} was abandoned: neither it nor its lock "
            "can be reached, so it is no longer renewed; keep the lease, or use `with`"
        )
        try:
            warnings.warn(message, ResourceWarning, stacklevel=2)
        except ResourceWarning:
            # Warnings are errors here, and this is nobody's call: say it in the log.
            self._client.logger.warning(message)

    async def _withdraw_due(self, now: float) -> float:
        with self._client.state:
            due = [one for one in self._withdrawals if now >= one.due]
        for one in due:
            is_done = await self._withdraw(one.claim)
            now = self._client.clock.now()
            one.attempt += 1
            one.due = now + delay(one.attempt, jitter=self._client.clock.jitter())
            if is_done or now >= one.give_up:
                with self._client.state:
                    if one in self._withdrawals:
                        self._withdrawals.remove(one)
        with self._client.state:
            return min((one.due for one in self._withdrawals), default=NEVER)

    async def _withdraw(self, claim: Claim) -> bool:
        client = self._client
        deadline = min(client.clock.now() + client.request_timeout, self._ends_first)
        try:
            await client.backend.withdraw(claim, deadline=deadline, tombstone=True)
        except LockError as error:
            client.logger.debug("withdrawal not answered: %s", error)
            return False
        except Exception:
            # As above: the background must not end by it.
            client.logger.exception("the backend failed in a withdrawal")
            return False
        return True


def _reason(hold: AsyncHold, outcome: Renewal, now: float) -> str:
    if outcome is Renewal.BROKEN:
        return "broken"
    if outcome is Renewal.LOST and now < hold.until:
        return "taken" if hold.client.backend.capabilities.ends_by == "ttl" else "session_ended"
    return "expired"
