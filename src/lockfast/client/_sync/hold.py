# Generated from src/lockfast/client/_async/hold.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""One grant of a client, with all the handles on it; and the holds of one client."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from lockfast.client._sync.handle import added, each, without
from lockfast.client._sync.lease import lease_on
from lockfast.core.deadlocks import Wait
from lockfast.core.renewal import (
    HELD,
    LOST,
    NEXT_STATES,
    RELEASING,
    HoldState,
    at_risk_from,
    cause_of_expiry,
    due_after,
    is_at_risk,
)
from lockfast.errors import LeaseLost
from lockfast.events import Lost, Released
from lockfast.model import FOREVER
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.client._sync.acquisition import Acquisition
    from lockfast.client._sync.client import Client
    from lockfast.client._sync.handle import Handle, SmallSet
    from lockfast.client._sync.lock import Lock
    from lockfast.core.renewal import Life
    from lockfast.events import Event, LossReason
    from lockfast.model import Grant


class Hold:
    """A grant that leases share and the watchdog renews; used only under the client's state lock.

    A hold references its lock and handles only weakly, and a handle references its lease only
    weakly. The hold is abandoned when nothing else references the lock and the leases, or when only
    the lock is referenced and the owner has ended.
    """

    __slots__ = (
        "__weakref__",
        "_handles",
        "_signal",
        "asked_at",
        "at_risk_noted",
        "at_risk_reported",
        "blocks",
        "capped_at",
        "cause",
        "client",
        "context",
        "due",
        "ends_at",
        "grant",
        "hold_state",
        "is_left_to_ttl",
        "is_renewing",
        "life",
        "lock",
        "lost_by",
        "needs_tombstone",
        "next_look_at",
        "on_lost",
        "renews",
        "since",
        "span",
        "unanswered",
        "until",
    )

    def __init__(
        self,
        client: Client,
        lock: Lock,
        grant: Grant,
        context: weakref.ref[runtime.Context],
        *,
        sent_at: float,
        span: float,
        until: float,
        now: float,
    ) -> None:
        self.client: Client = client
        self.lock: weakref.ref[Lock] = lock.ref
        self.grant: Grant = grant
        self.context: weakref.ref[runtime.Context] = context
        self.since: float = now
        self.until: float = until
        options = lock.options
        self.renews: bool = options.renew
        # How long the store keeps the hold after the latest request. After an admission, this may
        # at first be only the admission window.
        self.span: float = span
        life = client.life
        self.life: Life = life
        is_due = options.renew or grant.window is not None
        self.due: float = due_after(sent_at=sent_at, ttl=span, life=life) if is_due else FOREVER
        self.capped_at: float = FOREVER if options.max_hold is None else now + options.max_hold
        self.on_lost: Callable[[Any], None] | None = options.on_lost
        self.lost_by: str | None = None
        self.cause: str = ""
        """Why the lease expired, as far as is known."""
        self.asked_at: float | None = None
        """When the first of the unanswered renewals was sent; None if no renewal is unanswered."""
        self._signal: runtime.Signal | None = None
        self._handles: SmallSet[weakref.ref[Handle]] = None
        self.blocks: SmallSet[runtime.Block] = None
        self.hold_state: HoldState = HELD
        self.is_renewing: bool = False
        self.unanswered: bool = False
        self.at_risk_noted: bool = False
        """Whether the watchdog has seen that the lease is at risk."""
        self.at_risk_reported: bool = False
        """Whether the application was notified of the risk, and so must also be notified when the
        lease is safe again.
        """
        self.needs_tombstone: bool = False
        self.is_left_to_ttl: bool = False
        """Whether nothing may release the hold, so only its ttl ends it; see `leave_to_ttl`."""
        self.plan()

    @property
    def lost(self) -> runtime.Signal:
        """The signal of a loss, created on first use, because few callers need it."""
        with self.client.state:
            if self._signal is None:
                self._signal = runtime.Signal(self.client.clock)
                if self.lost_by is not None:
                    self._signal.set(self.lost_by)
            return self._signal

    def is_trusted(self, now: float) -> bool:
        """Return whether the holder may act."""
        return self.hold_state is HELD and now < self.until

    def change_state(self, then: HoldState) -> bool:
        """Change to that state, under the state lock; return false if this is not allowed."""
        if then not in NEXT_STATES[self.hold_state]:
            return False
        self.hold_state = then
        return True

    def end(self, then: HoldState, now: float, *, reported_as: type[Event] = Released) -> bool:
        """End the hold for its holder, and report this; return false if it had ended before."""
        with self.client.state:
            was = self.hold_state
            if then not in NEXT_STATES[was]:
                return False
            self.hold_state = then
        if was is HELD or was is RELEASING:  # otherwise the end was reported before
            self.tell(reported_as, (now - self.since,))
        return True

    def tell(self, kind: type[Event], facts: tuple[object, ...]) -> None:
        """Report an event about this hold; the facts are the event's own fields."""
        grant = self.grant
        self.client.emit(kind, grant.claim, grant.token, facts)

    def is_at_risk(self, now: float) -> bool:
        """Return whether the lease is still trusted, but at risk."""
        return self.is_trusted(now) and is_at_risk(
            now=now,
            until=self.until,
            ttl=self.span,
            unanswered=self.unanswered,
            life=self.life,
        )

    def plan(self) -> None:
        """Recompute when the watchdog must check this hold; call it after every change."""
        risk = at_risk_from(until=self.until, ttl=self.span, life=self.life)
        risk = FOREVER if self.at_risk_noted else risk
        self.ends_at: float = min(self.until, self.capped_at)
        # While a renewal is under way, its reply decides when the next renewal is due.
        due = FOREVER if self.is_renewing else self.due
        self.next_look_at: float = min(due, risk, self.ends_at)

    def is_abandoned(self) -> bool:
        """Return whether no caller is left that could release the hold.

        Even without a lease, the hold can be released through the lock, but only by the thread or
        task that acquired it.
        """
        owner = self.context()
        if self.lock() is not None and owner is not None and not runtime.has_ended(owner):
            return False
        return not any(handle.is_kept() for handle in self.handles())

    def handles(self) -> list[Handle]:
        """Return the handles on the hold, including those whose release is under way."""
        return [one for ref in each(self._handles) if (one := ref()) is not None]

    def add(self, handle: Handle) -> None:
        """Add a handle, with only a weak reference to it."""
        ref = weakref.ref(handle)
        hash(ref)  # cache the hash now; it cannot be computed once the handle is gone
        self._handles = added(self._handles, ref)

    def remove(self, handle: Handle) -> None:
        """Forget a handle, because a hold may be re-entered and released a million times."""
        for ref in each(self._handles):
            if ref() in (None, handle):
                self._handles = without(self._handles, ref)

    def has_handles(self, *, excluding: Handle | None = None) -> bool:
        """Return whether a caller has yet to release a handle on this hold, other than `excluding`.

        A handle that an interrupt left behind does not count, because no caller has it any more. So
        every check of what a thread or task holds calls this method.
        """
        if self.is_left_to_ttl:
            return True  # kept by a commit with an unknown outcome, not by a handle
        # Use no generator, because Python swallows an interrupt that strikes while a generator is
        # dropped.
        for ref in each(self._handles):
            one = ref()
            if one is None or one is excluding or one.is_released or one.is_left_behind:
                continue
            return True
        return False

    def leave_to_ttl(self) -> None:
        """Neither renew nor release the hold from now on, so that only its ttl ends it.

        This is for work under the hold that may still take effect, such as a commit that was sent
        and not answered. Releasing the hold would let the next holder in before that work takes
        effect. So neither the end of the last handle nor closing the client releases the hold, and
        even the thread or task that owned it must wait for the name like any other.
        """
        client = self.client
        with client.state:
            client.holds.remove(self)
            self.is_left_to_ttl, self.renews, self.due = True, False, FOREVER
            self.plan()
        client.logger.warning(
            "a commit under the lease on %r was sent and not answered, and may still take effect: "
            "the lease is not released, and expires in %.1f s",
            self.grant.claim.name,
            max(0.0, self.until - client.clock.now()),
        )

    def lose(self, reason: LossReason, *, after: HoldState = HELD) -> None:
        """Mark the lease as lost, and notify everyone concerned; the first reason stays.

        By default this does nothing while a release is under way, because the caller has asked for
        the end of the lease, and only the store's reply can show that the release came too late.
        """
        with self.client.state:
            if self.hold_state not in (after, LOST) or self.lost_by is not None:
                return
            if reason == "expired":
                self.cause = self._cause_of_expiry()
            # Keep this order, because after an interrupt between any two steps, nobody may act on
            # the lease, and the loss must be reported again.
            self.change_state(LOST)
            if self._signal is not None:
                self._signal.set(reason)
            self.lost_by = reason
            blocks = each(self.blocks)
        with self.client.state:
            self.client.watchdog.watched.pop(self, None)
            self.client.holds.lose(self)
        if not self.life.ends_by_itself and reason != "closed":
            # Nothing renews the hold, but its session may live on and would keep the hold for ever.
            # So withdraw it.
            self.client.cleanup_queue.withdraw_later(self.grant.claim)
        for block in blocks:
            block.interrupt(f"lockfast: the lease on {self.grant.claim.name!r} was lost: {reason}")
        self.tell(Lost, (reason, self.client.clock.now() - self.since, self.cause))
        if self.on_lost is not None:
            for handle in self.handles()[:1]:
                self.client.dispatcher.lost(self.on_lost, lease_on(handle))

    def _cause_of_expiry(self) -> str:
        return cause_of_expiry(
            now=self.client.clock.now(),
            due=self.due if self.renews else FOREVER,
            asked_at=self.asked_at,
            wakes_at=self.client.watchdog.wakes_at if self.renews else FOREVER,
            standstill_text=runtime.STANDSTILL_TEXT,
        )

    def disown(self) -> None:
        """Mark an inherited hold as lost in a forked child, because it belongs to the parent."""
        self.hold_state = LOST
        self.lost_by = "forked"
        if self._signal is not None:
            self._signal.reason = None
            self._signal.set("forked")

    def error(self, *, hint: str = "") -> LeaseLost:
        """Return the error that reports the loss."""
        return LeaseLost(
            name=self.grant.claim.name,
            token=self.grant.token,
            reason=self.lost_by or "expired",
            hint="; ".join(one for one in (self.cause, hint) if one),
        )


# The holds of one client. Holds that are not lost are kept by name; lost holds are referenced only
# weakly.


def wait_at(place: int | None, *, of: Acquisition) -> Wait[runtime.Context]:
    """Return the wait of an acquire at this place in line."""
    claim = of.claim
    return Wait(of.context, claim.name, claim.weight, claim.capacity, place)


class HoldRegistry:
    """The holds and waits of one client; used only under the client's state lock."""

    __slots__ = ("_adopting", "_by_name", "_has_lost", "_lost", "_state", "_waits")

    def __init__(self, state: runtime.StateLock) -> None:
        self._state = state
        self._by_name: dict[str, SmallSet[Hold]] = {}
        # A lost hold is kept as long as a caller has a lease on it, because the caller must learn
        # of the loss before it re-enters the lock.
        self._lost: weakref.WeakSet[Hold] = weakref.WeakSet()
        self._has_lost = False
        # The references are weak, because an adoption that an interrupt ended must not prevent
        # another adoption of the same lease.
        self._adopting: weakref.WeakSet[Acquisition] = weakref.WeakSet()
        # These references are weak too. The values must not reference their key, because otherwise
        # a task would never be freed. A wait that has ended stays until its thread or task waits
        # again; `wait_of` ignores such a wait.
        self._waits: weakref.WeakKeyDictionary[
            runtime.Context, tuple[weakref.ref[Acquisition], int | None]
        ] = weakref.WeakKeyDictionary()

    def __len__(self) -> int:
        with self._state:
            return len(self._lost) + len(self.kept())

    def add(self, hold: Hold) -> None:
        """Add the hold; call this under the state lock, like everything that uses the hold."""
        name = hold.grant.claim.name
        self._by_name[name] = added(self._by_name.get(name), hold)

    def begin_adopting(self, one: Acquisition) -> bool:
        """Begin to adopt a claim; return false if this client already has it or is adopting it.

        The store cannot tell two adoptions by one client apart, because it only distinguishes
        clients.
        """
        with self._state:
            here = {hold.grant.claim.id for hold in self.on(one.claim.name)}
            here.update([other.claim.id for other in self._adopting])
            if one.claim.id in here:
                return False
            self._adopting.add(one)
            return True

    def end_adopting(self, one: Acquisition) -> None:
        """Note that an adoption has ended; its claim has become a hold, or was not adopted."""
        with self._state:
            self._adopting.discard(one)

    def remove(self, hold: Hold) -> None:
        """Forget the hold; call this under the state lock, like `add`."""
        if self._has_lost:  # check this first, because `remove` runs at every release
            self._lost.discard(hold)
        name = hold.grant.claim.name
        if self._by_name.get(name) is hold:
            del self._by_name[name]
        else:
            self._remove_by_name(hold)

    def lose(self, hold: Hold) -> None:
        """Move the hold to the lost holds, each kept only while a caller has a lease on it."""
        with self._state:
            if hold in self.on(hold.grant.claim.name):
                # Keep this order, so that after an interrupt between any two steps, the registry
                # still has the hold.
                self._has_lost = True
                self._lost.add(hold)
                self._remove_by_name(hold)

    def _remove_by_name(self, hold: Hold) -> None:
        name = hold.grant.claim.name
        left = without(self._by_name.get(name), hold)
        if left is None:
            self._by_name.pop(name, None)
        else:
            self._by_name[name] = left

    def may_have(self, name: str) -> bool:
        """Return whether some thread or task of this client holds the name, or has lost any hold.

        This takes no lock. A thread or task only needs to find its own holds, which it has added
        itself.
        """
        return name in self._by_name or self._has_lost

    def may_have_any(self, names: tuple[str, ...]) -> bool:
        """Return whether `may_have` is true for at least one of the names; takes no lock."""
        return self._has_lost or not self._by_name.keys().isdisjoint(names)

    def has_any(self) -> bool:
        """Return whether any thread or task here has a hold that is not lost; takes no lock."""
        return bool(self._by_name)

    def of(self, context: runtime.Context, name: str) -> Hold | None:
        """Return the hold on a name that a thread or task has, and would re-enter."""
        with self._state:
            for hold in each(self._by_name.get(name)):
                if hold.context() is context and hold.grant.claim.party is None:
                    return hold
            if not self._has_lost:
                # every acquire runs this code, and even counting the set would slow it down
                return None
            self._has_lost = bool(self._lost)
            for hold in self._lost:
                claim = hold.grant.claim
                if hold.context() is context and claim.name == name and claim.party is None:
                    return hold
        return None

    def on(self, name: str) -> tuple[Hold, ...]:
        """Return the holds on a name that are not lost, of all threads and tasks."""
        with self._state:
            return each(self._by_name.get(name))

    def record_wait(self, one: Acquisition, *, place: int | None) -> None:
        """Record the wait that a thread or task begins."""
        with self._state:
            self._waits[one.context] = (weakref.ref(one), place)

    def wait_of(
        self, who: runtime.Context, *, lasts: Callable[[Acquisition], bool]
    ) -> Wait[runtime.Context] | None:
        """Return the wait of a thread or task; None if there is none, or it is about to end."""
        with self._state:
            known = self._waits.get(who)
            one = None if known is None else known[0]()
            if known is None or one is None or one.hold is not None or not lasts(one):
                return None
            return wait_at(known[1], of=one)

    def waits_at(
        self, name: str, *, lasts: Callable[[Acquisition], bool]
    ) -> list[Wait[runtime.Context]]:
        """Return all waits for a name in this client that are not about to end."""
        with self._state:
            waiting = list(self._waits)
        found = [self.wait_of(who, lasts=lasts) for who in waiting]
        return [one for one in found if one is not None and one.name == name]

    def names_of(self, context: runtime.Context) -> set[str]:
        """Return the names that a thread or task holds."""
        with self._state:
            # Use no generator, because Python swallows an interrupt that strikes while a generator
            # is dropped.
            return {
                name
                for name, holds in self._by_name.items()
                for hold in each(holds)
                if hold.context() is context and hold.has_handles()
            }

    def kept(self) -> list[Hold]:
        """Return the holds that are not lost, on all names."""
        with self._state:
            return [hold for holds in self._by_name.values() for hold in each(holds)]

    def all(self) -> list[Hold]:
        """Return all holds, including lost ones.

        This takes no lock, because a forked child calls it, and the thread that held the lock may
        not exist there.
        """
        holds = [hold for holds in self._by_name.values() for hold in each(holds)]
        return list(dict.fromkeys([*holds, *self._lost]))
