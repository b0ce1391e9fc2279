"""What the locks of one client share: the backend, the identity, the holds, the watchdog."""

from __future__ import annotations

import os
import socket
import warnings
import weakref
from collections import deque
from typing import TYPE_CHECKING

from lockfast._async.closing import AsyncClosing
from lockfast._async.followups import AsyncFollowups
from lockfast._async.hold_registry import AsyncHoldRegistry
from lockfast._async.telling import AsyncTelling
from lockfast._async.watchdog import AsyncWatchdog
from lockfast.core.holding import ENTRUSTED, OVER, RELEASING, SENT
from lockfast.core.telling import Standing
from lockfast.errors import LockError, LocksClosed, OutcomeUnknown
from lockfast.model import Claim, Owner, Renewal, in_context
from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from lockfast._async.acquiring import AsyncAcquisition
    from lockfast._async.backend import AsyncBackend
    from lockfast._async.handle import AsyncDuty, AsyncHandle
    from lockfast._async.hold import AsyncHold
    from lockfast._async.lock import AsyncLock
    from lockfast.events import LossReason
    from lockfast.model import Life
    from lockfast.options import ClientOptions, LockOptions
    from lockfast.runtime.clock import Clock

ASKERS = 2048
"""Of so many threads or tasks at most it is kept how stores know them."""


class AsyncClient:
    """The inside of an AsyncLocks; kept alive by its locks and leases."""

    def __init__(self, backend: AsyncBackend, options: ClientOptions) -> None:
        self.backend = backend
        self.life: Life = backend.capabilities.life
        self.ttl: float = options.ttl
        self.fitting: LockOptions | None = None
        """What was last found to be options that this store can keep."""
        self.warned_patterns: set[str] = set()
        """Patterns of names whose braces were warned about."""
        self.clock: Clock = options.clock
        self.request_timeout: float = options.request_timeout
        self.loop_guard: runtime.LoopGuard = runtime.LoopGuard()
        self.telling: AsyncTelling = AsyncTelling(
            backend, options, self.loop_guard, standing=self._standing
        )
        self.logger: logging.Logger = self.telling.logger
        self.emit: Callable[..., None] = self.telling.emit
        self.emit_claim: Callable[..., None] = self.telling.emit_claim
        self.state: runtime.StateLock = runtime.StateLock()
        self.watchdog: AsyncWatchdog = AsyncWatchdog(self)
        self.followups: AsyncFollowups = AsyncFollowups(self)
        self._label = options.label or ""
        self.holds: AsyncHoldRegistry = AsyncHoldRegistry(self.state)
        # Weakly: one that was interrupted is not there any more, and nobody waits for it. Whoever
        # is made in its place in memory takes its place here too.
        self._asking: dict[int, weakref.ref[AsyncAcquisition]] = {}
        self._cancellable: weakref.WeakSet[AsyncAcquisition] = weakref.WeakSet()
        self._left_behind: deque[AsyncAcquisition | AsyncDuty] = deque()
        self.closing: AsyncClosing = AsyncClosing(self)
        self.forebears: frozenset[str] = frozenset()
        """The ids that this had in the processes that it was forked from."""
        self._introduce()
        backend.attach(ttl=self.ttl, hurry=self.watchdog.hurry)
        self._bounds_requests = backend.bound_requests(self.request_timeout)
        forking.forget_in_child(self)
        runtime.close_at_exit(self)

    def _introduce(self) -> None:
        self.id: str = new_id()
        self._owner = Owner(host=socket.gethostname(), pid=os.getpid(), label=self._label)
        self._as_stored: dict[int, tuple[str, str]] = {}
        self._stem = self._owner.stem
        self.owner_text: str = str(self._owner)
        self.telling.owner = self.owner_text

    def __del__(self) -> None:
        closing: AsyncClosing | None = getattr(self, "closing", None)
        if closing is None or closing.is_begun or self.forebears or not self.watchdog.was_used:
            return  # it was never made, or is closed, or its parent's, or has opened nothing
        message = (
            f"a client of {self.backend.location} was dropped without close(), so its connections "
            "stayed open until now; use `with`, or call close()"
        )
        try:
            # Without its source: whoever records warnings would keep the client, and all it has.
            warnings.warn(message, ResourceWarning, stacklevel=2)
        except ResourceWarning:
            # Warnings are errors here, and nobody could catch one that a finalizer raises.
            self.logger.debug(message)

    # -- every public call -------------------------------------------------------------

    def enter(self) -> None:
        """Refuse a closed client or a second loop, and tell of what was lost meanwhile."""
        self.refuse_closed()
        self.loop_guard.check()
        if self._left_behind:
            self.watchdog.wake()
        self.watchdog.notice()

    def refuse_closed(self) -> None:
        """Raise if the client was closed."""
        if self.closing.is_begun:
            raise LocksClosed("this client was closed; make a new one")

    def begins_asking(self, one: AsyncAcquisition) -> None:
        """Enter, and know that somebody asks or waits, so that closing can end it."""
        if self._left_behind:
            self.watchdog.wake()
        if one.started >= self.watchdog.ends_first:
            self.watchdog.notice(one.started)
        with self.state:
            if self.closing.is_begun:
                self.refuse_closed()
            self._asking[id(one)] = weakref.ref(one)
            if one.cancel is not None:
                self._cancellable.add(one)
                self.watchdog.wake()

    def ends_asking(self, one: AsyncAcquisition) -> None:
        """Know that it asks no more, and has withdrawn if it was not granted."""
        with self.state:
            self._asking.pop(id(one), None)
            if one.cancel is not None:
                self._cancellable.discard(one)

    def is_asking(self, one: AsyncAcquisition) -> bool:
        """Whether that very acquire asks or waits."""
        ref = self._asking.get(id(one))
        return ref is not None and ref() is one

    def asking(self) -> list[AsyncAcquisition]:
        """Return whoever asks or waits."""
        with self.state:
            found = [ref() for ref in self._asking.values()]
        return [one for one in found if one is not None and not one.has_ended]

    def rouse_cancelled(self) -> bool:
        """Let whoever was told to wait no longer find that out; whether anybody may be told."""
        with self.state:
            waiting = list(self._cancellable)
        for one in waiting:
            if one.should_look():
                self.backend.rouse(one.claim)
        return bool(waiting)

    def acquire_deadline(self, sent_at: float, *, ends_at: float) -> float:
        """Return when a try that is sent then, by an acquire that ends then, is given up."""
        latest = ends_at if self._bounds_requests else min(sent_at, ends_at)
        return latest + self.request_timeout

    def request_deadline(self) -> float:
        """Return when a request that is sent now is given up."""
        return self.clock.now() + self.request_timeout

    def _standing(self) -> Standing:
        """Return what holds and waits now; later than what was told last, never earlier."""
        waiting = [one.claim for one in self.asking() if one.is_known_to_wait()]
        return Standing(self.id, [one.grant.claim for one in self.holds.kept()], waiting)

    # -- claims and holds --------------------------------------------------------------

    def new_claim(self, lock: AsyncLock, *, context: runtime.Context, queues: bool) -> Claim:
        """Return a claim that no other has ever made."""
        options = lock.options
        return Claim(
            os.urandom(16).hex(),  # as new_id(), at every acquire
            lock.name,
            self.id,
            self.stored_owner(context),
            lock.weight,
            lock.capacity,
            options.ttl,
            options.owner,
            options.lock_delay,
            options.min_hold,
            queues,
        )

    def stored_owner(self, context: runtime.Context) -> str:
        """Return who asks, as stores keep it."""
        # By name too: what has ended may have left its address to another, but not its name.
        name, asker = runtime.context_name(context), id(context)
        known = self._as_stored.get(asker)
        if known is not None and known[0] == name:
            return known[1]
        owner = in_context(self._stem, name, f"{self.id[:12]}-{asker:x}")
        if len(self._as_stored) >= ASKERS:
            self._as_stored.clear()
        self._as_stored[asker] = (name, owner)
        return owner

    def add(self, hold: AsyncHold) -> None:
        """Know the hold from now on, unless the client was closed while it was asked for."""
        with self.state:
            if self.closing.is_begun:
                self.refuse_closed()
            self.holds.add(hold)
            self.watchdog.watch(hold)

    def remove(self, hold: AsyncHold) -> None:
        """Forget the hold."""
        with self.state:
            self._drop(hold)

    def _drop(self, hold: AsyncHold) -> None:
        self.watchdog.watched.pop(hold, None)
        self.holds.remove(hold)

    def left_behind(self, what: AsyncAcquisition | AsyncDuty) -> None:
        """Let the background clear up what an interrupt left; no lock is taken, from any thread.

        From now on it is in nobody's way here: whoever asks for the same waits until it is ended,
        and neither enters it again nor takes it for a deadlock.
        """
        for handle in what.handles:
            handle.is_left_behind = True
        self._left_behind.append(what)
        self.watchdog.kick()

    def clear_up(self) -> None:
        """End what was left behind; by the background alone, which nothing interrupts."""
        while self._left_behind:
            self._left_behind.popleft().clear_up()

    def leave(self, handle: AsyncHandle) -> None:
        """End a handle in the background: nobody is left to do it."""
        hold = handle.hold
        with self.state:
            if handle.is_ended:
                return
            handle.end()
            if hold.has_handles(beside=handle):
                handle.is_released = True
                hold.remove(handle)
                return
            if not hold.become(RELEASING):
                return
            self.remove(hold)
        self._release_later(hold)

    async def end(self, hold: AsyncHold) -> None:
        """Release a hold; raise LeaseLost if it was over before."""
        # In one step: the background may be about to send it too, if the caller was interrupted.
        with self.state:
            self._drop(hold)
            if self.closing.is_shut or hold.lost_by == "forked":
                raise hold.error()
            now = self.clock.now()
            # What was sent while trusted is clean whatever a repeat answers: the first request may
            # have been the one that freed it.
            was_sent_before = hold.holding in SENT
            was_trusted = was_sent_before or (hold.is_trusted(now) and hold.become(RELEASING))
        deadline = now + self.request_timeout
        try:
            was_ours = await self.backend.release(
                hold.grant, deadline=deadline, tombstone=hold.needs_tombstone
            )
        except LockError as error:
            self.telling.failed("release", error, hold.grant.claim)
            self._release_later(hold)
            if not was_trusted:
                raise hold.error() from error
            name = hold.grant.claim.name
            if was_sent_before and not isinstance(error, OutcomeUnknown):
                # Refused is the repeat alone: the first request may have freed it.
                raise OutcomeUnknown(
                    f"an earlier release of {name!r} was not answered, and its repeat failed: "
                    f"{error}",
                    name=name,
                    claim=hold.grant.claim.id,
                ) from error
            error.about(name)
            raise
        except BaseException:
            # An interrupt: as above, nobody knows whether it was done.
            self._release_later(hold)
            raise
        if not was_trusted:
            hold.lose("expired")
            raise hold.error()
        # Not if the background has sent it meanwhile, and was quicker.
        if not (was_ours or was_sent_before or hold.holding is ENTRUSTED):
            why = await self._why_over(hold, answered_at=self.clock.now())
            hold.lose(why, after=RELEASING)
            raise hold.error()
        now = self.clock.now()
        hold.end(OVER, now)
        if now >= self.watchdog.ends_first:
            self.watchdog.notice(now)

    def _release_later(self, hold: AsyncHold) -> None:
        hold.needs_tombstone = True
        is_clean = hold.end(ENTRUSTED, self.clock.now())
        self.followups.release_later(hold.grant)
        if not is_clean:
            hold.lose("expired")  # it was sent too late; what was lost or entrusted before stays so

    async def _why_over(self, hold: AsyncHold, *, answered_at: float) -> LossReason:
        # What was answered after its time had ended by itself, however early it was sent.
        otherwise: LossReason = "taken" if answered_at < hold.until else "expired"
        # A renewal of what is over changes nothing, and tells a break from a loss.
        try:
            [outcome] = await self.backend.renew([hold.grant], deadline=self.request_deadline())
        except LockError:
            return otherwise
        return "broken" if outcome is Renewal.BROKEN else otherwise

    # -- the end -----------------------------------------------------------------------

    async def aclose(self) -> None:
        """Tell every lease that it is lost, then let go of everything."""
        await self.closing.run()

    def after_fork_in_child(self) -> None:
        """Hold nothing, and be somebody else."""
        holds = self.holds.all()
        asking = [one for ref in self._asking.values() if (one := ref()) is not None]
        self.state = runtime.StateLock()
        self.holds = AsyncHoldRegistry(self.state)
        self._asking = {}
        self._cancellable = weakref.WeakSet()
        self._left_behind.clear()
        self.watchdog.after_fork_in_child()
        self.followups.after_fork_in_child()
        self.telling.after_fork_in_child()
        self.loop_guard.forget()
        for hold in holds:
            hold.disown()
        self.forebears |= {self.id}
        self._introduce()
        for one in asking:
            one.begin_in_child()


def new_id() -> str:
    """Return 128 random bits, drawn now: a generator's state is copied by fork."""
    return os.urandom(16).hex()
