"""One grant that this client has, with all the handles on it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from lockfast._async.lease import lease_on
from lockfast.core.expiring import cause_of_expiry
from lockfast.core.holding import HELD, LEADS_TO, LOST, RELEASING, Holding
from lockfast.core.mostly_one import added, each, without
from lockfast.core.renewing import due_after
from lockfast.core.trust import at_risk_from, is_at_risk
from lockfast.errors import LeaseLost
from lockfast.events import Lost, Released
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast._async.client import AsyncClient
    from lockfast._async.handle import AsyncHandle
    from lockfast._async.lock import AsyncLock
    from lockfast.core.mostly_one import MostlyOne
    from lockfast.events import Event, LossReason
    from lockfast.model import Grant, Life

NEVER = float("inf")


class AsyncHold:
    """What the watchdog renews and the leases share; touched under the client's state lock.

    It knows its lock and its handles only weakly, as these know their leases: when nobody else
    does, or only the lock of one whose owner has ended, it is abandoned.
    """

    __slots__ = (
        "__weakref__",
        "_handles",
        "_signal",
        "asked_at",
        "at_risk_noted",
        "at_risk_told",
        "blocks",
        "capped_at",
        "cause",
        "client",
        "context",
        "due",
        "ends_at",
        "grant",
        "holding",
        "is_renewing",
        "life",
        "lock",
        "looked_at",
        "lost_by",
        "needs_tombstone",
        "on_lost",
        "renews",
        "runs_out",
        "since",
        "span",
        "unanswered",
        "until",
    )

    def __init__(
        self,
        client: AsyncClient,
        lock: AsyncLock,
        grant: Grant,
        context: weakref.ref[runtime.Context],
        *,
        sent_at: float,
        span: float,
        until: float,
        now: float,
    ) -> None:
        self.client: AsyncClient = client
        self.lock: weakref.ref[AsyncLock] = lock.ref
        self.grant: Grant = grant
        self.context: weakref.ref[runtime.Context] = context
        self.since: float = now
        self.until: float = until
        options = lock.options
        self.renews: bool = options.renew
        # How long the store keeps it from the last request on: at first perhaps a window.
        self.span: float = span
        life = client.life
        self.life: Life = life
        is_due = options.renew or grant.window is not None
        self.due: float = due_after(sent_at=sent_at, ttl=span, life=life) if is_due else NEVER
        self.capped_at: float = NEVER if options.max_hold is None else now + options.max_hold
        self.on_lost: Callable[[Any], None] | None = options.on_lost
        self.lost_by: str | None = None
        self.cause: str = ""
        """Why it expired, as far as is known."""
        self.asked_at: float | None = None
        """When the first renewal was sent that has not been answered."""
        self._signal: runtime.Signal | None = None
        self._handles: MostlyOne[weakref.ref[AsyncHandle]] = None
        self.blocks: MostlyOne[runtime.Block] = None
        self.holding: Holding = HELD
        self.is_renewing: bool = False
        self.unanswered: bool = False
        self.at_risk_noted: bool = False
        """Whether the watchdog has seen that it is at risk."""
        self.at_risk_told: bool = False
        """Whether the application was told so, and has to be told when it is safe again."""
        self.needs_tombstone: bool = False
        self.runs_out: bool = False
        """Whether it is left to its ttl, so that nobody may release it: see `run_out`."""
        self.plan()

    @property
    def lost(self) -> runtime.Signal:
        """The signal of its loss, made for the first who asks: hardly anybody does."""
        with self.client.state:
            if self._signal is None:
                self._signal = runtime.Signal(self.client.clock)
                if self.lost_by is not None:
                    self._signal.set(self.lost_by)
            return self._signal

    def is_trusted(self, now: float) -> bool:
        """Whether the holder may act."""
        return self.holding is HELD and now < self.until

    def become(self, then: Holding) -> bool:
        """Take that state, under the state lock; false if it cannot follow on this one."""
        if then not in LEADS_TO[self.holding]:
            return False
        self.holding = then
        return True

    def end(self, then: Holding, now: float, *, told_as: type[Event] = Released) -> bool:
        """End it by the holder's will, and tell so once; false if another was quicker."""
        with self.client.state:
            was = self.holding
            if then not in LEADS_TO[was]:
                return False
            self.holding = then
        if was is HELD or was is RELEASING:  # else it was told before
            self.tell(told_as, now - self.since)
        return True

    def tell(
        self, kind: type[Event], first: object, second: object = None, third: object = None
    ) -> None:
        """Tell what has happened to it; the facts are the event's own fields."""
        grant = self.grant
        self.client.emit(kind, grant.claim, grant.token, first, second, third)

    def is_at_risk(self, now: float) -> bool:
        """Whether the holder should hurry."""
        return self.is_trusted(now) and is_at_risk(
            now=now,
            until=self.until,
            ttl=self.span,
            unanswered=self.unanswered,
            life=self.life,
        )

    def plan(self) -> None:
        """Work out anew when the watchdog must look: after whatever of it has changed."""
        risk = at_risk_from(until=self.until, ttl=self.span, life=self.life)
        risk = NEVER if self.at_risk_noted else risk
        self.ends_at: float = min(self.until, self.capped_at)
        # While a renewal is under way its answer says when the next is due.
        due = NEVER if self.is_renewing else self.due
        self.looked_at: float = min(due, risk, self.ends_at)

    def is_abandoned(self) -> bool:
        """Whether nobody is left who could release it.

        A lock can, also without a lease, but only for the thread or task that acquired.
        """
        owner = self.context()
        if self.lock() is not None and owner is not None and not runtime.has_ended(owner):
            return False
        return not any(handle.is_kept() for handle in self.handles())

    def handles(self) -> list[AsyncHandle]:
        """Return the handles on it, those that are just being released too."""
        return [one for ref in each(self._handles) if (one := ref()) is not None]

    def add(self, handle: AsyncHandle) -> None:
        """Know a further handle."""
        ref = weakref.ref(handle)
        hash(ref)  # while it can be told: of one whose handle is gone, Python knows only this
        self._handles = added(self._handles, ref)

    def remove(self, handle: AsyncHandle) -> None:
        """Forget a handle: a hold that is re-entered a million times must not remember each."""
        for ref in each(self._handles):
            if ref() in (None, handle):
                self._handles = without(self._handles, ref)

    def has_handles(self, *, beside: AsyncHandle | None = None) -> bool:
        """Whether somebody has a handle on it that was not released, perhaps beside another.

        Nobody has what an interrupt left behind, or what was granted and not yet returned to its
        caller. So all that asks what a thread or task holds goes by this.
        """
        if self.runs_out:
            return True  # what keeps it is no handle, but a commit whose outcome is unknown
        # No generator: Python swallows an interrupt that strikes while it drops one.
        for ref in each(self._handles):
            one = ref()
            if one is None or one is beside or one.is_released or one.is_left_behind:
                continue
            return True
        return False

    def run_out(self) -> None:
        """Neither renew nor release it from now on: it ends by its ttl alone.

        For what was done under it and may still take effect, as a commit that was sent and not
        answered. Whoever released it, or entered it again, would let the next holder in before
        that. So its last handle does not release it, closing does not, and its own thread or task
        waits for it as everybody else does.
        """
        client = self.client
        with client.state:
            client.holds.remove(self)
            self.runs_out, self.renews, self.due = True, False, NEVER
            self.plan()
        client.logger.warning(
            "a commit under the lease on %r was sent and not answered, and may still take effect: "
            "the lease is not released, and expires in %.1f s",
            self.grant.claim.name,
            max(0.0, self.until - client.clock.now()),
        )

    def lose(self, reason: LossReason, *, after: Holding = HELD) -> None:
        """Tell everybody that the lease is over; the first reason stays.

        Not while its release is under way: that it is over is what was asked for. Only the
        answer can say that it was too late.
        """
        with self.client.state:
            if self.holding not in (after, LOST) or self.lost_by is not None:
                return
            if reason == "expired":
                self.cause = self._cause_of_expiry()
            # In this order: interrupted between any two, nobody acts on it, and it is told again.
            self.become(LOST)
            if self._signal is not None:
                self._signal.set(reason)
            self.lost_by = reason
            blocks = each(self.blocks)
        with self.client.state:
            self.client.watchdog.watched.pop(self, None)
            self.client.holds.lose(self)
        if not self.life.ends_by_itself and reason != "closed":
            # Nobody renews it, but its session may live on and would keep it for ever.
            self.client.followups.withdraw_later(self.grant.claim)
        for block in blocks:
            block.interrupt(f"lockfast: the lease on {self.grant.claim.name!r} was lost: {reason}")
        self.tell(Lost, reason, self.client.clock.now() - self.since, self.cause)
        if self.on_lost is not None:
            for handle in self.handles()[:1]:
                self.client.telling.lost(self.on_lost, lease_on(handle))

    def _cause_of_expiry(self) -> str:
        return cause_of_expiry(
            now=self.client.clock.now(),
            due=self.due if self.renews else NEVER,
            asked_at=self.asked_at,
            wakes_at=self.client.watchdog.wakes_at if self.renews else NEVER,
            stood_still=runtime.STOOD_STILL,
        )

    def disown(self) -> None:
        """Be lost in a forked child, whatever was told before: here nothing of it is ours."""
        self.holding = LOST
        self.lost_by = "forked"
        if self._signal is not None:
            self._signal.reason = None
            self._signal.set("forked")

    def error(self, *, hint: str = "") -> LeaseLost:
        """Return the error that tells of the loss."""
        return LeaseLost(
            name=self.grant.claim.name,
            token=self.grant.token,
            reason=self.lost_by or "expired",
            hint="; ".join(one for one in (self.cause, hint) if one),
        )
