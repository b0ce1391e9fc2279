"""One session: its claims, the proof that it is alive, and its keep-alives.

Keep-alives are sent while the session is open. While the session has a hold, a quorum has to
confirm each keep-alive, because nothing less proves that a lease may be trusted (see `keepalive`).
While the session has no hold, a cheaper keep-alive is enough. After SESSION_IDLE_SECONDS without a
claim the session is closed, so that an idle client costs the store nothing. The next acquire opens
another session.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends._async.single_flight import FLIGHT_GRACE_SECONDS, AsyncSingleFlight
from lockfast.backends.sessions import records
from lockfast.backends.sessions.keepalive import SessionProof
from lockfast.backends.sessions.line import Watches
from lockfast.backends.waiting._async.wakeups import AsyncWakeups
from lockfast.core.renewal import (
    SESSION_PROOF_TTL_FRACTION,
    retry_after_silence,
    trusted_until,
)
from lockfast.errors import BackendError, BackendUnavailable, LockError, OutcomeUnknown
from lockfast.model import FOREVER
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sessions._async.transport import AsyncSessionTransport
    from lockfast.backends.sessions.records import OwnEntry, SessionClaim
    from lockfast.runtime.clock import Clock

SESSION_IDLE_SECONDS = 30.0
"""Time after which a session without claims is closed, in seconds."""

REQUEST_TIMEOUT_SECONDS = 2.0
"""Timeout of a request that the session sends on its own behalf, in seconds."""

TIMEOUTS_PER_TTL = 3
"""A connection that is silent for ttl / TIMEOUTS_PER_TTL is cut, so that there is time to try
another member."""

STRAY_CHECK_KEEPALIVES = 3
"""Number of keep-alives between two searches for entries of the session that belong to no claim."""

DELETE_RETRY_SECONDS = 1.0
"""Delay before a failed removal of an entry is tried again, in seconds."""


class AsyncSession:
    """A session with a store, from its opening to its end; it cannot be reopened."""

    def __init__(
        self,
        new_transport: Callable[[float, Callable[[], None]], AsyncSessionTransport],
        *,
        ttl: float,
        clock: Clock,
        alarm: Callable[[], None],
    ) -> None:
        """`new_transport` is called with the ttl and the callback for changes of the connection."""
        self.asked = ttl
        self.ttl = ttl
        self.carried: dict[str, SessionClaim] = {}
        self.held: set[str] = set()
        """The claims that were granted and have not ended."""
        self.closing: dict[str, float] = {}
        """The ended claims that keep their names closed: maps the claim's key to the time when the
        name may open."""
        self.touching: dict[str, SessionClaim] = {}
        """The claims, by key, whose entries are being touched, until the store has replied."""
        self.wakeups = AsyncWakeups(clock)
        self.watches = Watches(self._heard)
        self.transport = new_transport(ttl, self._changed)
        self._clock = clock
        self._alarm = alarm
        self._state = runtime.StateLock()
        self._proof = SessionProof(opened_at=-FOREVER, ttl=ttl)
        self._proving = AsyncSingleFlight[None](clock)
        self._silent_since: float | None = None
        self._kick = runtime.WakeEvent()
        self._task: runtime.Task | None = None
        self._is_ending = False
        self._is_dead = False
        self._keepalive_count = 0

    # -- lifecycle ---------------------------------------------------------------------

    async def open(self, *, deadline: float) -> None:
        """Open the session, and set `ttl` to the ttl that the store granted."""
        opening = await self.transport.open(deadline=deadline)
        self.ttl = opening.granted
        self._proof = SessionProof(opened_at=opening.opened_at, ttl=self.ttl)
        try:
            self._task = runtime.spawn(self._run, name="lockfast-session")
        except RuntimeError as error:
            # Without a thread, nothing would keep the session alive; `open`'s caller closes it.
            raise BackendUnavailable(
                f"{self.transport.where}: no thread is to be had for the session: {error}"
            ) from error

    @property
    def counted_from(self) -> float:
        """The time from which the session's timeout counts, as confirmed by a quorum."""
        return self._proof.counted_from

    def is_usable(self, now: float) -> bool:
        """Return whether the session may take a claim; once false, the answer stays false."""
        if self._is_ending or self._is_dead or self.transport.is_over:
            return False
        proof = self._proof
        since = proof.counted_from if self.held else proof.contact_from
        if now >= trusted_until(sent_at=since, ttl=self.ttl):
            # The session is dead for good. Its leases were reported lost, and a late reply must not
            # revive it.
            self._is_dead = True
            self._kick.set()
            return False
        self._keep_running()
        return True

    def kick(self) -> None:
        """Make the background task check again what is due; may be called on any thread."""
        self._kick.set()

    def end(self) -> None:
        """Stop all use of the session."""
        self._is_ending = True
        self._kick.set()
        self._wake_all()

    async def close(self, *, goodbye: bool) -> None:
        """Close the session; without a goodbye its claims stay until the store ends it."""
        self.end()
        if self._task is not None:
            await self._task.join()
        await self.transport.close(
            goodbye=goodbye, deadline=self._clock.now() + REQUEST_TIMEOUT_SECONDS
        )

    def abandon_connection(self) -> None:
        """Abandon the session in a forked child; it belongs to the parent process."""
        self._is_ending = True
        self.transport.abandon_connection()

    # -- the proof ---------------------------------------------------------------------

    async def prove(self, *, deadline: float) -> bool:
        """Return whether a quorum confirmed the session recently; ask for it if that is due.

        Concurrent callers share one request for the confirmation.
        """
        now = self._clock.now()
        if self._proof.is_due(now):
            proving = await self._proving.run_shared(
                partial(self._send_keepalive, deadline, confirm=True),
                deadline=deadline + FLIGHT_GRACE_SECONDS,
            )
            if proving.was_ours and proving.is_known:
                proving.result()
        return now - self._proof.last_confirmed < self.ttl * SESSION_PROOF_TTL_FRACTION

    async def prove_for_grant(self, *, deadline: float) -> None:
        """Make sure that a new lease has enough of its ttl left; raise if no quorum confirms that.

        A claim that has waited is admitted after a mere read, and even a member that is cut off
        from the other members answers reads.
        """
        if self._proof.is_stale(self._clock.now()) and not await self.prove(deadline=deadline):
            raise OutcomeUnknown(f"{self.transport.where} did not confirm the session in time")

    def confirmed(self, *, sent_at: float) -> None:
        """Record that a quorum confirmed a request that was sent at `sent_at`."""
        with self._state:
            self._proof.confirmed(sent_at=sent_at, now=self._clock.now())

    async def _send_keepalive(self, deadline: float, *, confirm: bool) -> None:
        sent_at = self._clock.now()
        try:
            beat = await self.transport.beat(confirm=confirm, deadline=deadline)
        except OutcomeUnknown:
            self._cut_if_silent(sent_at)
            raise
        if confirm and not beat.is_confirmed:
            # The reply may come from a deposed leader, so treat it as a missing reply; the
            # keep-alive is repeated soon.
            self._cut_if_silent(sent_at)
            raise OutcomeUnknown(f"{self.transport.where}: no quorum confirmed the session")
        self._silent_since = None
        with self._state:
            self._proof.keepalive_answered(
                sent_at=beat.sent_at,
                now=beat.answered_at,
                is_confirmed=beat.is_confirmed,
                proves_itself=beat.proves_itself,
            )

    def _cut_if_silent(self, sent_at: float) -> None:
        if self._silent_since is None:
            self._silent_since = sent_at
        if self._clock.now() - self._silent_since >= min(
            REQUEST_TIMEOUT_SECONDS, self.ttl / TIMEOUTS_PER_TTL
        ):
            self._silent_since = None
            self.transport.hang_up()

    # -- the background ----------------------------------------------------------------

    def _keep_running(self) -> None:
        """Restart the background task if it was cancelled along with all other tasks."""
        if self._task is None or self._task.is_alive():
            return
        # If no thread can be started, the next call of this function tries again.
        with self._state, suppress(RuntimeError):
            if not (self._task.is_alive() or self._is_ending or self._is_dead):
                self._task = runtime.spawn(self._run, name="lockfast-session")

    async def _run(self) -> None:
        try:
            await self._keep_alive()
        finally:
            if not (self._is_ending or self._is_dead):
                # The task was cancelled from outside. Wake every waiting claim that relies on the
                # task; the next check restarts the task.
                self._wake_all()
                self._alarm()
        if not self._is_ending:
            self.end()
            await self.transport.close(
                goodbye=True, deadline=self._clock.now() + REQUEST_TIMEOUT_SECONDS
            )

    async def _keep_alive(self) -> None:
        idle_since = self._clock.now()
        while not self._is_ending:
            self._kick.clear()
            now = self._clock.now()
            if not self.is_usable(now):
                break
            if self.carried or self.closing:
                idle_since = now
            elif now - idle_since > SESSION_IDLE_SECONDS and self._is_dead_if_empty():
                break
            wake_at = await self._act(now)
            await runtime.wait_for(self._kick, deadline=wake_at, clock=self._clock)

    async def _act(self, now: float) -> float:
        """Do what is due, and return when to check again."""
        try:
            try:
                if now >= self._proof.next_due:
                    await self._run_keepalive()
            finally:
                await self._end_min_holds(now)
        except (BackendError, OutcomeUnknown) as error:
            # The next attempt comes soon. Until then the older proof holds; it expires if no newer
            # proof replaces it.
            _log.debug("heartbeat not answered: %s", error)
            return retry_after_silence(now=self._clock.now(), ttl=self.ttl)
        except LockError as error:
            _log.warning("heartbeat refused: %s", error)
            return self._clock.now() + 1.0
        except Exception:  # noqa: BLE001 - it is logged with all that is known of it
            # Continue after any error, because without keep-alives all leases would end.
            _log.exception("the session's heartbeat failed")
            return self._clock.now() + 1.0
        return min(self._proof.next_due, *self.closing.values(), now + SESSION_IDLE_SECONDS)

    async def _run_keepalive(self) -> None:
        now = self._clock.now()
        deadline = now + min(REQUEST_TIMEOUT_SECONDS, self.ttl / TIMEOUTS_PER_TTL)
        if self.held:
            await self.prove(deadline=deadline)
        else:
            await self._send_keepalive(deadline, confirm=False)
        self._keepalive_count += 1
        for key, one in list(self.touching.items()):
            self._touch_at(key, one)
        if self._keepalive_count % STRAY_CHECK_KEEPALIVES == 0:
            await self._remove_strays()

    async def _end_min_holds(self, now: float) -> None:
        due = [key for key, until in list(self.closing.items()) if until <= now]
        for key in due:
            if await self._remove(key):
                self.closing.pop(key, None)
            else:
                self.closing[key] = self._clock.now() + DELETE_RETRY_SECONDS

    async def _remove(self, key: str) -> bool:
        """Remove the entry at the key, if there is one; return false if that failed.

        Each call removes one key, because an entry that the store refuses to remove must not block
        the removal of others.
        """
        try:
            await self.transport.remove(
                [(key, None)], deadline=self._clock.now() + REQUEST_TIMEOUT_SECONDS
            )
        except LockError as error:
            _log.warning("%s could not be removed yet: %s", key, error)
            return False
        return True

    async def _remove_strays(self) -> None:
        """Delete the entries of this session that belong to no claim of ours.

        Another member may have executed an unanswered arrival after the claim's withdrawal. The
        session lives on, so nothing else would ever delete the resulting entry.
        """
        own = await self.transport.own(deadline=self._clock.now() + REQUEST_TIMEOUT_SECONDS)
        for one in own:
            if self._is_stray(one):
                await self._remove(one.key)  # if this fails, the next check finds it again

    def _is_stray(self, own: OwnEntry) -> bool:
        one = self.carried.get(own.claim_id)
        is_known = one is not None and one.key in (None, own.key)
        return not is_known and own.key not in self.closing

    def _is_dead_if_empty(self) -> bool:
        # Check and mark under the lock, which `carry` takes too, so that a concurrent `carry`
        # either keeps the session alive or is refused.
        with self._state:
            self._is_dead = not self.carried and not self.closing
        return self._is_dead

    # -- claims ------------------------------------------------------------------------

    def carry(self, one: SessionClaim) -> None:
        """Add a claim to the session; raise SessionEnded if the session is no longer usable."""
        with self._state:
            if self._is_ending or self._is_dead:
                raise records.ended(where=self.transport.where)
            self.carried[one.claim.id] = one

    def touch(self, one: SessionClaim) -> None:
        """Touch the claim's entry to wake its watchers; repeated until the store has replied."""
        if one.key is not None:
            self.touching[one.key] = one
            self._touch_at(one.key, one)

    def _touch_at(self, key: str, one: SessionClaim) -> None:
        def heard(is_done: bool) -> None:  # noqa: FBT001 - the transport calls it
            if is_done:
                self.touching.pop(key, None)

        self.transport.touch(key, one, heard)

    def forget(self, claim_id: str) -> None:
        """Forget a claim, and all watches and wakeups for it."""
        self.carried.pop(claim_id, None)
        self.held.discard(claim_id)
        self.wakeups.forget(claim_id)
        self.watches.forget(claim_id)

    # -- the transport's thread --------------------------------------------------------

    def _heard(self, claim_id: str, key: str) -> None:
        one = self.carried.get(claim_id)
        if one is not None and one.key == key:
            # The entry was deleted or touched, or its watch was lost, so the next renewal reads the
            # entry again.
            one.is_seen = False
        else:
            self.wakeups.wake(claim_id)

    def _changed(self) -> None:
        greeting = self.transport.greeting
        if greeting is not None:
            if self.transport.is_connected:
                with self._state:
                    self._proof.greeted(sent_at=greeting.sent_at, now=greeting.heard_at)
            if self._task is not None and greeting.granted < self.ttl:
                # The member that we connected to has other limits, and granted a timeout shorter
                # than the ttl of our leases.
                self._is_dead = True
                self._alarm()
        self._kick.set()
        self._wake_all()
        if not self._is_ending and not self.transport.is_connected:
            self._alarm()

    def _wake_all(self) -> None:
        for claim_id in list(self.carried):
            self.wakeups.wake(claim_id)


_log = logging.getLogger("lockfast")
