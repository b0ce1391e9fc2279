"""How a claim becomes a hold: try, stand in line, wait to be rung, try again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lockfast._async.cycles import refuse_cycle
from lockfast._async.handle import AsyncHandle
from lockfast._async.hold import AsyncHold
from lockfast._async.lease import AsyncLease
from lockfast._async.parents import warn_of_parents
from lockfast.core.backoff import delay, spread
from lockfast.core.contention import next_mention, still_waiting
from lockfast.core.holding import OVER
from lockfast.core.outage import Outage
from lockfast.core.telling import withdrawn_by
from lockfast.core.trust import refuse_unsound, trusted_until
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
from lockfast.model import Grant, Held
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from lockfast._async.client import AsyncClient
    from lockfast._async.lock import AsyncLock
    from lockfast.events import WithdrawalReason
    from lockfast.model import Claim

NEVER = float("inf")
REFUSALS = (BackendError, ConfigurationError)
"""By these the store, or the way to it, says that a request was not done."""

LOOK_AGAIN = 30.0
"""A waiter asks again after so long even if the store cannot say when it may help."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The time was up: what the store last said, and how long we waited."""

    held: Held
    waited: float


class Cancel(Protocol):
    """What ends a wait from outside: an event of `threading` or `asyncio`, say."""

    def is_set(self) -> bool:
        """Whether the wait is to end."""
        ...


class Looking(Protocol):
    """What one who stands in line does meanwhile."""

    async def look(self) -> float:
        """Return when to be asked again; what it raises ends the wait."""
        ...


class Together:
    """Several acquires that are handed over to the caller in one instant, or not at all."""

    owes = True


class AsyncAcquisition:
    """One call of acquire, from the first request to the hold or to leaving nothing behind.

    It is there before anything is asked, and belongs to the frames that ask. Dropped while it
    owes something, because an interrupt struck where nobody could clean up, it is cleared up by
    the client's background.
    """

    # Here, for one that is interrupted before it is made, and because most are granted at once.
    owes: bool = False
    _together: Together | None = None
    _is_unanswered = False
    stands: bool = False
    has_ended: bool = False
    """Whether something ended it before it returned: it asks no more, though it may live on."""
    _outage: Outage | None = None
    _answered_at: float | None = None
    _held = Held(())
    _withdrawal_error: Exception | None = None
    _is_told_waiting = False
    _mention_after = 0.0
    """How long it has to wait before the log says so next; 0 before it has waited at all."""
    cancel: Cancel | None = None
    ends_by_loss_alone: bool = False
    """Whether nothing cancels it but the loss of what it goes with."""
    hold: AsyncHold | None = None
    handles: tuple[AsyncHandle, ...] = ()
    looking: Looking | None = None

    def __init__(
        self,
        client: AsyncClient,
        lock: AsyncLock,
        *,
        timeout: float | None,
        cancel: Cancel | None = None,
        together: Together | None = None,
        claim: Claim | None = None,
    ) -> None:
        self._client = client
        if together is not None:
            self._together = together
        self._lock = lock
        context = client.loop_guard.context()
        self.context: runtime.Context = context
        self.started: float = client.clock.now()
        self._deadline = NEVER if timeout is None else self.started + timeout
        self._queues = queues = timeout is None or timeout > 0
        if cancel is not None:
            self.cancel = cancel
        self.claim: Claim = claim or client.new_claim(lock, context=context, queues=queues)

    def leave_behind(self) -> None:
        """Let the background end what no caller gets, because something ended this acquire.

        It would do so when the frames are gone. But whoever caught the interrupt has them in its
        traceback, and may ask for the same lock before it drops that.
        """
        # It may strike anywhere, also inside a step that another lock protects: no more than this.
        self.has_ended = True
        self.stands = False  # as in `_withdraw`
        if self.owes and (self._together is None or self._together.owes):
            self._client.left_behind(self)
            self.owes = False  # the background has it: `__del__` need not hand it over again

    def __del__(self) -> None:
        self.leave_behind()

    def clear_up(self) -> None:
        """Leave nothing behind, in the background: whoever asked is not there any more."""
        for handle in self.handles:
            self._client.leave(handle)
        if not self.handles and not self._is_our_parents():
            if not self._disown():
                self._tell_withdrawn("cancelled")
            self._client.followups.withdraw_later(self.claim)

    def _disown(self) -> bool:
        """Have no hold: the claim is about to be withdrawn; whether there was one."""
        hold = self.hold
        if hold is None or hold not in self._client.holds.on(self.claim.name):
            return False
        self._client.remove(hold)
        return hold.end(OVER, self._client.clock.now())

    def lease_on(self, hold: AsyncHold) -> AsyncLease:
        """Return a handle on the hold, which is ours until it is handed over to the caller."""
        handle = AsyncHandle(hold, self._lock.ref, self._together)
        with self._client.state:
            self.handles = (handle,)
            self.owes = True
            hold.add(handle)
            self._lock.keep(handle)
        return AsyncLease(handle)

    async def run(self) -> AsyncLease | Refused:
        """Return a lease, or that the time was up; whatever else happens is raised.

        Unless it returns a lease, the claim neither holds nor waits afterwards, or its
        withdrawal goes on in the background.
        """
        client, sent_at = self._client, self.started
        if client.holds.may_have(self._lock.name):
            client.enter()
            lease = self._lock.reentered(self)
            if lease is not None:
                return lease
        client.begins_asking(self)
        try:
            ended: AsyncLease | Refused | None = None
            # In one frame, for as long as it waits: a task that is woken goes through each of them.
            while ended is None:
                self.owes = True
                was_unanswered, self._is_unanswered = self._is_unanswered, True
                try:
                    answer = await client.backend.try_acquire(
                        self.claim,
                        deadline=client.acquire_deadline(sent_at, ends_at=self._deadline),
                    )
                except LockError as error:
                    client.telling.failed("acquire", error, self.claim)
                    await self._bear(error, was_unanswered=was_unanswered)
                else:
                    self._is_unanswered = was_unanswered
                    hold = self._believed(answer, sent_at)
                    ended = await self._wait(answer) if hold is None else self.lease_on(hold)
                sent_at = client.clock.now()
        except BaseException as error:
            # A cancellation or an interrupt too: whatever ends it leaves nothing behind. What has a
            # handle by then is ended by that.
            if not self.handles:
                await self._withdraw_after(error)
            self.leave_behind()
            raise
        finally:
            client.ends_asking(self)
        return ended

    async def _withdraw_after(self, error: BaseException) -> None:
        self._tell_withdrawn(withdrawn_by(error))
        if not self.owes:
            return
        if not isinstance(error, OutcomeUnknown):
            was_unanswered = self._is_unanswered
            is_done = await runtime.shield(self._withdraw())
            if was_unanswered and not is_done and isinstance(error, REFUSALS):
                # Refused is the repeat alone: an earlier copy may still come true.
                raise OutcomeUnknown(
                    f"an earlier request for {self._lock.name!r} was not answered, and its "
                    f"withdrawal is being retried in the background: {error}",
                    name=self._lock.name,
                    claim=self.claim.id,
                ) from error
            return
        error.claim = self.claim.id
        if await runtime.shield(self._withdraw()):
            # Answered now: nothing was acquired, and nothing is left behind.
            raise BackendUnavailable(
                f"{error}; our claim to {self._lock.name!r} was withdrawn, "
                "so it can be tried again",
                name=self._lock.name,
            ) from error
        error.about(self._lock.name)

    async def _give_up(self) -> Refused:
        """Leave the line, since the time is up."""
        if self._queues and not await runtime.shield(self._withdraw()):
            raise OutcomeUnknown(
                f"the store has not confirmed that our claim to {self._lock.name!r} is withdrawn "
                f"({self._withdrawal_error}); the withdrawal is being retried in the background",
                name=self._lock.name,
                claim=self.claim.id,
            ) from self._withdrawal_error
        self.owes = False  # withdrawn, or it never joined the line
        self._client.watchdog.notice()
        return self._refused()

    def _refused(self) -> Refused:
        # The holders have grown older since the store told of them.
        now = self._client.clock.now()
        since = now - (self._answered_at or now)
        # Who did not mean to wait is not told of a slow store's time as if it were waiting.
        waited = now - self.started if self._queues else 0.0
        self._is_told_waiting = False  # before it is told, as in `_tell_withdrawn`
        if self._queues:
            self._client.emit_claim(TimedOut, self.claim, waited, self._held.place)
        else:
            self._client.emit_claim(Skipped, self.claim)
        return Refused(self._held.after(since), waited)

    def _tell_waiting(self, place: int | None) -> None:
        if self._client.telling.away:
            self._client.telling.answered(self.claim)
        if not self._is_told_waiting:
            self._is_told_waiting = True
            self._client.emit_claim(Waiting, self.claim, place)

    def _tell_withdrawn(self, reason: WithdrawalReason) -> None:
        self._is_told_waiting = False
        waited = self._client.clock.now() - self.started
        self._client.emit_claim(Withdrawn, self.claim, waited, reason)

    async def _wait(self, answer: Grant | Held) -> Refused | None:
        """Wait until it is worth asking again, or say that the time is up."""
        if isinstance(answer, Grant):
            await self._begin_anew()  # it came too late for anybody to trust it
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
            return await self._give_up()
        if is_first:
            refuse_cycle(client, self, place=answer.place, left=self._deadline - now)
            warn_of_parents(client, self._lock.name)
        self._tell_waiting(answer.place)
        until = await self._asks_again_at(answer, now)
        await client.backend.wait(self.claim, deadline=until)
        self._refuse_ended()
        return await self._give_up() if clock.now() >= self._deadline else None

    async def _asks_again_at(self, answer: Held, now: float) -> float:
        retry_in = LOOK_AGAIN if answer.retry_in is None else max(0.0, answer.retry_in)
        until = min(self._deadline, now + spread(retry_in, jitter=self._client.clock.jitter()))
        if self._client.logger.isEnabledFor(logging.INFO):
            until = min(until, self._mention(answer, now))
        return until if self.looking is None else min(until, await self.looking.look())

    def _mention(self, answer: Held, now: float) -> float:
        """Say in the log that it waits, once that has lasted long; return when to say it next.

        By then the store is asked again, so that what is said is new.
        """
        waited, after = now - self.started, self._mention_after or next_mention(0.0)
        if waited >= after:
            said = still_waiting(self._lock.name, answer, waited=waited)
            self._client.logger.info("%s", said)
            after = next_mention(waited)
        self._mention_after = after
        return self.started + after

    def _has_lost_its_place(self, answer: Held) -> bool:
        """Whether a claim that was known has no place any more, so that waiting is in vain.

        An operator may break a hold whose claimant never heard of it.
        """
        is_repeat = self.stands or self._is_unanswered
        return (
            is_repeat
            and answer.place is None
            and self._queues
            and self._client.backend.capabilities.fair
        )

    def _start_over(self) -> None:
        """Ask with a new claim: the old one neither holds nor waits, nor will it ever."""
        if self._is_told_waiting:
            self._tell_withdrawn("replaced")
        self.claim = self._client.new_claim(self._lock, context=self.context, queues=self._queues)
        self._is_unanswered = self.stands = False

    def _is_our_parents(self) -> bool:
        """Whether this process was forked since it was asked for: then nothing of it is ours."""
        return self.claim.client in self._client.forebears

    def begin_in_child(self) -> None:
        """Ask with a claim of one's own, if a signal's handler forked and comes back here.

        The one that was asked for is the parent's, and so is whatever it is granted.
        """
        self.owes = self._is_told_waiting = False
        self._start_over()

    async def _bear(self, error: LockError, *, was_unanswered: bool) -> None:
        """Return when it is worth repeating the request that failed so, or let the error out."""
        if isinstance(error, OutcomeUnknown):
            # A repeat is idempotent, so one lost reply costs a round trip and no error.
            await self._pause_or_raise(error)
            return
        # An answer that cannot be read says nothing of what became of the request.
        self._is_unanswered = was_unanswered or isinstance(error, BackendMisbehaved)
        was_heard = was_unanswered or self._answered_at is not None
        if isinstance(error, BackendUnavailable) and was_heard:
            await self._pause_or_raise(error)
            return
        if isinstance(error, BackendUnavailable):
            self.owes = False  # nothing was ever sent
        # Else refused: the store answered, and it was neither yes nor wait.
        raise error.about(self._lock.name)

    async def _pause_or_raise(self, error: LockError) -> None:
        """Wait a little before asking again, or let the error out."""
        clock = self._client.clock
        now = clock.now()
        # Not since the last answer: who is told when to ask may not have asked for long.
        outage = self._outage or Outage(since=now)
        if not outage.is_outlived(
            now=now,
            deadline=self._deadline,
            ttl=self.claim.ttl,
            was_answered=self._answered_at is not None,
        ):
            raise error.about(self._lock.name)
        self._outage = outage.again()
        pause = delay(outage.failures, jitter=clock.jitter())
        await runtime.wait_for(
            runtime.Event(), deadline=min(now + pause, self._deadline), clock=clock
        )
        self._refuse_ended()

    async def believe(self, grant: Grant, sent_at: float) -> AsyncHold | None:
        """Return the hold, or None when the answer came too late to be trusted."""
        hold = self._believed(grant, sent_at)
        if hold is None:
            await self._begin_anew()
        return hold

    async def _begin_anew(self) -> None:
        await self._withdraw()
        self._start_over()

    def _believed(self, grant: Grant | Held, sent_at: float) -> AsyncHold | None:
        """Return the hold, unless it was not granted or came too late to be trusted."""
        if not isinstance(grant, Grant):
            return None
        client = self._client
        if grant.claim.client in client.forebears:
            return None  # our parent asked, before it forked
        refuse_unsound(grant, self.claim, life=client.life)
        span = grant.ttl
        if grant.window is not None:
            # The store gives the name to the next claim when the window ends, however long the
            # ttl is: only an answered renewal makes it a ttl. Without this bound the two overlap.
            sent_at, span = grant.window.since, min(span, grant.window.seconds)
        elif grant.counted_from is not None:
            sent_at = grant.counted_from
        until = trusted_until(sent_at=sent_at, ttl=span)
        self._answered_at = now = client.clock.now()
        if now >= until:
            return None
        self.hold = hold = AsyncHold(
            client,
            self._lock,
            grant,
            runtime.remember_context(self.context),
            sent_at=sent_at,
            span=span,
            until=until,
            now=now,
        )
        hold.needs_tombstone = self._is_unanswered
        client.add(hold)
        if grant.claim.client in client.forebears:
            client.remove(hold)  # forked just before it was known, so that no fork disowned it
            hold.disown()
            return hold  # lost from its first moment; that it was acquired is its parent's to tell
        if client.telling.away:
            client.telling.answered(self.claim)
        waited = now - self.started
        client.emit(Acquired, grant.claim, grant.token, waited, grant.ttl, hold.renews)
        if now >= client.watchdog.ends_first:
            client.watchdog.notice(now)
        return hold

    async def withdraw_unanswered(self) -> bool:
        """Leave nothing behind of a claim that was asked for along with others."""
        self._is_unanswered = True
        return await self._withdraw()

    async def _withdraw(self) -> bool:
        """Leave nothing behind; false if that is not done yet, and goes on behind us.

        Whatever ends something treats every error as "not done yet": a right that was taken away
        for a second is no reason to leave a claim in line, which would hold one day.
        """
        client, now = self._client, self._client.clock.now()
        if self._is_our_parents():
            self.owes = False
            return True
        self.stands = False  # from now on: whoever looks for a cycle must not take it to wait
        self._disown()
        latest = min(now, self._deadline) + client.request_timeout
        try:
            await client.backend.withdraw(
                self.claim, deadline=max(now, latest), tombstone=self._is_unanswered
            )
        except Exception as error:  # noqa: BLE001 - it goes on, and is told
            client.followups.tell_of(error, "withdraw", self.claim)
            # What the store has only ever refused stands nowhere.
            if self._is_unanswered or self._answered_at is not None:
                client.followups.withdraw_later(self.claim)
            self._withdrawal_error = error
            self.owes = False
            return False
        self.owes = False
        return True

    def waits_beyond(self, moment: float) -> bool:
        """Whether it stands in line, and nothing known ends that before the moment."""
        is_ending = self._deadline < moment or runtime.is_being_cancelled(self.context)
        return self.stands and not is_ending

    def is_known_to_wait(self) -> bool:
        """Whether it was told that it waits, and not yet what became of it."""
        return self._is_told_waiting and self.hold is None

    def should_look(self) -> bool:
        """Whether the wait may have been cancelled, as the background sees it."""
        try:
            return self.cancel is not None and self.cancel.is_set()
        except (Exception, SystemExit):  # noqa: BLE001 - told where it is waited
            # Somebody else's code, which must not end the look-out for all leases: whoever waits
            # asks it again, and gets what it raises.
            return True

    def _refuse_ended(self) -> None:
        """Raise if nobody wants it any more: the client was closed, or the wait cancelled."""
        self._client.refuse_closed()
        if self.cancel is not None and self.cancel.is_set():
            held = self._held
            raise NotAcquired(
                f"the wait for {self._lock.name!r} was cancelled",
                name=self._lock.name,
                holders=held.holders,
                place=held.place,
            )
