"""One session: what it carries, the proof that it lives, and the heartbeats that give it.

Heartbeats go on while it is open. While anything is held each is to be confirmed by a quorum,
since nothing less proves that a lease may be trusted (`proof`); while nothing is, a cheaper one
will do. After IDLE seconds with nothing to carry it is closed, so that an idle client costs the
store nothing; the next acquire opens another.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from lockfast._async.single_flight import LAST_WORD, AsyncSingleFlight
from lockfast._async.wakeups import AsyncWakeups
from lockfast.backends.sessions import refusals
from lockfast.backends.sessions.proof import Proof
from lockfast.backends.sessions.watches import Watches
from lockfast.core.trust import trusted_until
from lockfast.errors import BackendError, BackendUnavailable, LockError, OutcomeUnknown
from lockfast.runtime import aio as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sessions._async.wire import AsyncWire
    from lockfast.backends.sessions.answers import Own
    from lockfast.backends.sessions.claims import CarriedClaim
    from lockfast.runtime.clock import Clock

IDLE = 30.0
"""With nothing to carry, the session is closed after so long."""

REQUEST = 2.0
"""How long one request of our own may take."""

PATIENCE = 3
"""Silent for this part of the ttl, a connection is cut: another member may answer in time."""

RETRIES = 12
"""A heartbeat that was not answered is repeated this often per ttl."""

SWEEP = 3
"""Every so many heartbeats we look for claims of ours that nobody knows."""

AGAIN = 1.0
"""So long before something is removed again that the store did not remove."""

NEVER = float("inf")


class AsyncSession:
    """A session with a store, from its opening to its end; there is no coming back."""

    def __init__(
        self,
        new_wire: Callable[[float, Callable[[], None]], AsyncWire],
        *,
        ttl: float,
        clock: Clock,
        alarm: Callable[[], None],
    ) -> None:
        """`new_wire` gets the ttl, and what to call when the connection has changed."""
        self.asked = ttl
        self.ttl = ttl
        self.carried: dict[str, CarriedClaim] = {}
        self.held: set[str] = set()
        """The claims that were granted and have not ended."""
        self.closing: dict[str, float] = {}
        """Keys of what was released and stays for its min_hold, and until when."""
        self.touching: dict[str, CarriedClaim] = {}
        """Claims to be touched, until the store has answered."""
        self.wakeups = AsyncWakeups(clock)
        self.watches = Watches(self._heard)
        self.wire = new_wire(ttl, self._changed)
        self._clock = clock
        self._alarm = alarm
        self._state = runtime.StateLock()
        self._proof = Proof(opened_at=-NEVER, ttl=ttl)
        self._proving = AsyncSingleFlight[None](clock)
        self._silent_since: float | None = None
        self._kick = runtime.Event()
        self._task: runtime.Task | None = None
        self._is_ending = False
        self._is_dead = False
        self._beats = 0

    # -- life --------------------------------------------------------------------------

    async def open(self, *, deadline: float) -> None:
        """Begin it; what the store granted is then in `ttl`."""
        opening = await self.wire.open(deadline=deadline)
        self.ttl = opening.granted
        self._proof = Proof(opened_at=opening.opened_at, ttl=self.ttl)
        try:
            self._task = runtime.spawn(self._run, name="lockfast-session")
        except RuntimeError as error:
            # Nobody would keep it alive. Whoever opened it closes it.
            raise BackendUnavailable(
                f"{self.wire.where}: no thread is to be had for the session: {error}"
            ) from error

    @property
    def counted_from(self) -> float:
        """From when the session's timeout counts, by what a quorum has confirmed."""
        return self._proof.counted_from

    def is_usable(self, now: float) -> bool:
        """Whether it may carry a claim; once it may not, it never will again."""
        if self._is_ending or self._is_dead or self.wire.is_over:
            return False
        proof = self._proof
        since = proof.counted_from if self.held else proof.heard_from
        if now >= trusted_until(sent_at=since, ttl=self.ttl):
            # For good: its leases were told so, and a late answer must not bring it back.
            self._is_dead = True
            self._kick.set()
            return False
        self._keep_running()
        return True

    def kick(self) -> None:
        """Let the background look anew at what is due; from any thread."""
        self._kick.set()

    def end(self) -> None:
        """Let nobody use it any more."""
        self._is_ending = True
        self._kick.set()
        self._ring_all()

    async def close(self, *, goodbye: bool) -> None:
        """End it; without a goodbye its claims stay until the store ends it."""
        self.end()
        if self._task is not None:
            await self._task.join()
        await self.wire.close(goodbye=goodbye, deadline=self._clock.now() + REQUEST)

    def leak(self) -> None:
        """Leave it to the parent process."""
        self._is_ending = True
        self.wire.leak()

    # -- the proof ---------------------------------------------------------------------

    async def prove(self, *, deadline: float) -> bool:
        """Whether a quorum has confirmed the session not long ago; asks for it if needed.

        All who ask at the same time share one request.
        """
        now = self._clock.now()
        if self._proof.is_due(now):
            proving = await self._proving.fly(
                partial(self._beat_once, deadline, confirm=True), deadline=deadline + LAST_WORD
            )
            if proving.was_ours and proving.is_known:
                proving.result()
        return now - self._proof.last_confirmed < self.ttl / 2

    async def prove_for_grant(self, *, deadline: float) -> None:
        """Let a lease begin with a good part of its ttl; raises if nobody confirms it.

        Whoever has waited comes here by a read, and a member that is cut off answers those.
        """
        if self._proof.is_stale(self._clock.now()) and not await self.prove(deadline=deadline):
            raise OutcomeUnknown(f"{self.wire.where} did not confirm the session in time")

    def confirmed(self, *, sent_at: float) -> None:
        """Know that a quorum has confirmed something which was asked for then."""
        with self._state:
            self._proof.confirmed(sent_at=sent_at, now=self._clock.now())

    async def _beat_once(self, deadline: float, *, confirm: bool) -> None:
        sent_at = self._clock.now()
        try:
            beat = await self.wire.beat(confirm=confirm, deadline=deadline)
        except OutcomeUnknown:
            self._be_impatient(sent_at)
            raise
        if confirm and not beat.is_confirmed:
            # Answered by one that may be deposed: as good as no answer, and asked for again soon.
            self._be_impatient(sent_at)
            raise OutcomeUnknown(f"{self.wire.where}: no quorum confirmed the session")
        self._silent_since = None
        with self._state:
            self._proof.beaten(
                sent_at=beat.sent_at,
                now=beat.answered_at,
                is_confirmed=beat.is_confirmed,
                proves_itself=beat.proves_itself,
            )

    def _be_impatient(self, sent_at: float) -> None:
        if self._silent_since is None:
            self._silent_since = sent_at
        if self._clock.now() - self._silent_since >= min(REQUEST, self.ttl / PATIENCE):
            self._silent_since = None
            self.wire.hang_up()

    # -- the background ----------------------------------------------------------------

    def _keep_running(self) -> None:
        """Let the background go on that somebody ended with all other tasks."""
        if self._task is None or self._task.is_alive():
            return
        # Where no thread is to be had, the next one who comes tries again.
        with self._state, suppress(RuntimeError):
            if not (self._task.is_alive() or self._is_ending or self._is_dead):
                self._task = runtime.spawn(self._run, name="lockfast-session")

    async def _run(self) -> None:
        try:
            await self._keep_alive()
        finally:
            if not (self._is_ending or self._is_dead):
                # Cancelled from outside: whoever relies on it looks, and lets it go on.
                self._ring_all()
                self._alarm()
        if not self._is_ending:
            self.end()
            await self.wire.close(goodbye=True, deadline=self._clock.now() + REQUEST)

    async def _keep_alive(self) -> None:
        idle_since = self._clock.now()
        while not self._is_ending:
            self._kick.clear()
            now = self._clock.now()
            if not self.is_usable(now):
                break
            if self.carried or self.closing:
                idle_since = now
            elif now - idle_since > IDLE and self._is_dead_if_empty():
                break
            wake_at = await self._act(now)
            await runtime.wait_for(self._kick, deadline=wake_at, clock=self._clock)

    async def _act(self, now: float) -> float:
        """Do what is due, and return when to look again."""
        try:
            try:
                if now >= self._proof.next_due:
                    await self._beat()
            finally:
                await self._end_min_holds(now)
        except (BackendError, OutcomeUnknown) as error:
            # The next one is soon; until then the older proof stands, and runs out by itself.
            _log.debug("heartbeat not answered: %s", error)
            return self._clock.now() + min(self.ttl / RETRIES, 1.0)
        except LockError as error:
            _log.warning("heartbeat refused: %s", error)
            return self._clock.now() + 1.0
        except Exception:  # noqa: BLE001 - it is logged with all that is known of it
            # Whatever it is, the leases go on: without heartbeats all of them would end.
            _log.exception("the session's heartbeat failed")
            return self._clock.now() + 1.0
        return min(self._proof.next_due, *self.closing.values(), now + IDLE)

    async def _beat(self) -> None:
        now = self._clock.now()
        deadline = now + min(REQUEST, self.ttl / PATIENCE)
        if self.held:
            await self.prove(deadline=deadline)
        else:
            await self._beat_once(deadline, confirm=False)
        self._beats += 1
        for key, one in list(self.touching.items()):
            self._touch_at(key, one)
        if self._beats % SWEEP == 0:
            await self._sweep()

    async def _end_min_holds(self, now: float) -> None:
        due = [key for key, until in list(self.closing.items()) if until <= now]
        for key in due:
            if await self._remove(key):
                self.closing.pop(key, None)
            else:
                self.closing[key] = self._clock.now() + AGAIN

    async def _remove(self, key: str) -> bool:
        """Whether the store has removed it, or had nothing there.

        Each by itself: one that the store refuses must not keep the others.
        """
        try:
            await self.wire.remove([(key, None)], deadline=self._clock.now() + REQUEST)
        except LockError as error:
            _log.warning("%s could not be removed yet: %s", key, error)
            return False
        return True

    async def _sweep(self) -> None:
        """Delete what this session keeps and stands for no claim of ours.

        An arrival that was not answered may have been executed after its withdrawal, by
        another member. The session lives on, so nobody else would ever delete it.
        """
        own = await self.wire.own(deadline=self._clock.now() + REQUEST)
        for one in own:
            if self._is_stranger(one):
                await self._remove(one.key)  # where it is not done, the next sweep finds it again

    def _is_stranger(self, own: Own) -> bool:
        one = self.carried.get(own.claim_id)
        is_known = one is not None and one.key in (None, own.key)
        return not is_known and own.key not in self.closing

    def _is_dead_if_empty(self) -> bool:
        # In one step with `carry`: a claim that comes just now must find it alive or not at all.
        with self._state:
            self._is_dead = not self.carried and not self.closing
        return self._is_dead

    # -- claims ------------------------------------------------------------------------

    def carry(self, one: CarriedClaim) -> None:
        """Be the session of a claim from now on; refuses if it may not be used any more."""
        with self._state:
            if self._is_ending or self._is_dead:
                raise refusals.ended(where=self.wire.where)
            self.carried[one.claim.id] = one

    def touch(self, one: CarriedClaim) -> None:
        """Tell who watches a claim that it was admitted; repeated until it is answered."""
        if one.key is not None:
            self.touching[one.key] = one
            self._touch_at(one.key, one)

    def _touch_at(self, key: str, one: CarriedClaim) -> None:
        def heard(is_done: bool) -> None:  # noqa: FBT001 - the wire calls it
            if is_done:
                self.touching.pop(key, None)

        self.wire.touch(key, one, heard)

    def forget(self, claim_id: str) -> None:
        """Know nothing of a claim any more."""
        self.carried.pop(claim_id, None)
        self.held.discard(claim_id)
        self.wakeups.forget(claim_id)
        self.watches.forget(claim_id)

    # -- the wire's thread -------------------------------------------------------------

    def _heard(self, claim_id: str, key: str) -> None:
        one = self.carried.get(claim_id)
        if one is not None and one.key == key:
            one.is_seen = False  # gone, touched, or unwatched: the next renewal looks
        else:
            self.wakeups.ring(claim_id)

    def _changed(self) -> None:
        greeting = self.wire.greeting
        if greeting is not None:
            if self.wire.is_connected:
                with self._state:
                    self._proof.greeted(sent_at=greeting.sent_at, now=greeting.heard_at)
            if self._task is not None and greeting.granted < self.ttl:
                # Another member has other bounds: less than what the leases were told.
                self._is_dead = True
                self._alarm()
        self._kick.set()
        self._ring_all()
        if not self._is_ending and not self.wire.is_connected:
            self._alarm()

    def _ring_all(self) -> None:
        for claim_id in list(self.carried):
            self.wakeups.ring(claim_id)


_log = logging.getLogger("lockfast")
