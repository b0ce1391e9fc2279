"""The verbs on a store with sessions, and which session carries what."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lockfast._async.backend import AsyncBackend
from lockfast._async.single_flight import LAST_WORD, AsyncSingleFlight
from lockfast.backends.sessions._async.inspecting import AsyncInspecting
from lockfast.backends.sessions._async.renewing import renewed
from lockfast.backends.sessions._async.session import AsyncSession
from lockfast.backends.sessions.refusals import SessionEnded, Unreadable
from lockfast.core.tombs import Tombs
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown
from lockfast.model import Held, Proven, Renewal
from lockfast.options import DEFAULT_TTL
from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from lockfast.backends.sessions._async.wire import AsyncWire
    from lockfast.model import Claim, Finding, Grant, Holder, Inspection
    from lockfast.runtime.clock import Clock

T = TypeVar("T")

_log = logging.getLogger("lockfast")

LOOKS = 3
"""So often a look is asked for again whose connection was lost: one that hangs up each time is not
asked for ever."""

BROKEN = 64
"""Of so many claims it is remembered that they were broken, until their holders ask."""


class AsyncSessionsBackend(AsyncBackend):
    """Locks in a store with sessions: one for all claims of a client.

    A store inherits it, says what it is able to and how it is found, calls `_set_up`, and brings
    its wire.
    """

    def _new_wire(self, ttl: float, changed: Callable[[], None]) -> AsyncWire:
        """Return the wire of a session that is yet to be opened."""
        raise NotImplementedError

    def _set_up(self, *, location: str, clock: Clock) -> None:
        self.location = location
        self._clock = clock
        self._ttl = DEFAULT_TTL
        self._alarms: list[Callable[[], None]] = []
        self._begin()
        forking.forget_in_child(self)

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        self._reading: AsyncInspecting | None = None
        self._opening = AsyncSingleFlight[None](self._clock)
        self._carriers: dict[str, AsyncInspecting] = {}
        self._tombs = Tombs()
        self._broken: dict[str, None] = {}
        self._leaving: list[runtime.Task] = []

    # -- the verbs ---------------------------------------------------------------------

    async def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        if self._tombs.has(claim, now=self._clock.now()):
            return Held(())
        while True:
            reading = self._carriers[claim.id] = await self._opened(claim.ttl, deadline)
            try:
                answer = await reading.try_acquire(claim, deadline=deadline)
                break
            except SessionEnded:
                # Nothing of it can be left: what stood for the claim went with it.
                continue
            except LockError:
                if claim.id not in reading.session.carried:
                    self._carriers.pop(claim.id, None)
                raise
        if isinstance(answer, Held) and not claim.queues:
            self._carriers.pop(claim.id, None)
        return answer

    async def renew(
        self, grants: Sequence[Grant], *, deadline: float
    ) -> Sequence[Renewal | Proven]:
        """See the protocol: one heartbeat of the session, shared by all its claims."""
        outcomes: dict[str, Renewal | Proven] = {}
        by_session: dict[AsyncInspecting, list[Grant]] = {}
        for grant in grants:
            carrier = self._carriers.get(grant.claim.id)
            if carrier is None:
                is_broken = grant.claim.id in self._broken
                outcomes[grant.claim.id] = Renewal.BROKEN if is_broken else Renewal.LOST
            else:
                by_session.setdefault(carrier, []).append(grant)
        for carrier, carried in by_session.items():
            outcomes.update(
                await renewed(carrier.session, carried, clock=self._clock, deadline=deadline)
            )
        return [outcomes[grant.claim.id] for grant in grants]

    async def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        claim = grant.claim
        carrier = self._carriers.get(claim.id)
        if tombstone:
            self._bury(claim)
        if carrier is None:
            return False
        was_ours = False
        if carrier.session.is_usable(self._clock.now()):
            try:
                was_ours = await carrier.release(claim, deadline=deadline)
            except SessionEnded:
                was_ours = False
            else:
                self._remember_broken(claim, is_broken=not was_ours)
        carrier.session.forget(claim.id)
        self._carriers.pop(claim.id, None)
        return was_ours

    async def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        if tombstone:
            self._bury(claim)
        carrier = self._carriers.get(claim.id)
        if carrier is None:
            return
        # A session that may not be used any more is not kept alive either: what it carries
        # ends with it.
        if carrier.session.is_usable(self._clock.now()):
            with suppress(SessionEnded):
                await carrier.withdraw(claim, deadline=deadline)
        carrier.session.forget(claim.id)
        self._carriers.pop(claim.id, None)

    async def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        carrier = self._carriers.get(claim.id)
        if carrier is not None:
            await carrier.session.wakeups.wait(claim.id, deadline=deadline)

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        carrier = self._carriers.get(claim.id)
        if carrier is not None:
            carrier.session.wakeups.ring(claim.id)

    async def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol."""
        return await self._look(lambda one: one.inspect(name, deadline=deadline), deadline)

    async def attest(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol."""
        return await self._look(
            lambda one: one.inspect(name, confirm=True, deadline=deadline), deadline
        )

    async def survey(self, prefix: str, *, deadline: float) -> AsyncIterator[Inspection]:
        """See the protocol; the deadline is for each request, as there may be many."""
        patience = deadline - self._clock.now()
        names = await self._look(lambda one: one.names(prefix, deadline=deadline), deadline)
        for name in names:
            try:
                one = await self.inspect(name, deadline=self._clock.now() + patience)
            except Unreadable as error:
                # What a stranger wrote must not hide all other names.
                _log.warning("left out: %s", error)
                continue
            if one.is_in_use:
                yield one

    async def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol; there are no explicit owners here."""
        del owner
        reading = await self._onlooker(deadline)
        return await reading.break_(name, token=token, deadline=deadline)

    async def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        """See the protocol."""
        seconds = deadline - self._clock.now()
        session = (await self._onlooker(deadline)).session
        return await session.wire.diagnose(
            asked=session.asked, granted=session.ttl, seconds=seconds, deadline=deadline
        )

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        """See the protocol."""
        self._ttl = ttl
        self._alarms.append(hurry)

    async def disown(self, client: str, *, deadline: float) -> None:
        """See the protocol: the session is left to the store, which ends it in its time."""
        del client, deadline
        await self._leave(goodbye=False)

    async def aclose(self) -> None:
        """See the protocol."""
        await self._opening.end()
        reading = self._reading
        try:
            # A name that is to stay closed for a while stays so until the store ends the session.
            await self._leave(goodbye=reading is None or not reading.session.closing)
        finally:
            for task in self._leaving:
                await task.join()
            self._leaving.clear()

    def after_fork_in_child(self) -> None:
        """Let the child begin with nothing of the parent's."""
        for carrier in {*self._carriers.values(), *filter(None, [self._reading])}:
            carrier.session.leak()
        self._begin()

    async def _look(self, act: Callable[[AsyncInspecting], Awaitable[T]], deadline: float) -> T:
        """Return what is seen, by another session if the first one ends meanwhile.

        To look changes nothing, so what was lost with its connection is asked again.
        """
        lost = 0
        while True:
            reading = await self._onlooker(deadline)
            try:
                return await act(reading)
            except SessionEnded:
                continue
            except OutcomeUnknown:
                lost += 1
                if lost > LOOKS or self._clock.now() >= deadline:
                    raise

    async def _onlooker(self, deadline: float) -> AsyncInspecting:
        """Return by whom people look and break: by any session, where a store lets no other in."""
        return await self._opened(None, deadline)

    # -- tombstones --------------------------------------------------------------------

    def _remember_broken(self, claim: Claim, *, is_broken: bool) -> None:
        """Know for a while whose hold an operator ended: its session lives."""
        if not is_broken:
            return
        with self._state:
            self._broken[claim.id] = None
            if len(self._broken) > BROKEN:
                del self._broken[next(iter(self._broken))]

    def _bury(self, claim: Claim) -> None:
        """Remember that a claim is over: all requests for it come through here."""
        with self._state:
            self._tombs.bury(claim, now=self._clock.now())

    # -- sessions ----------------------------------------------------------------------

    async def _opened(self, ttl: float | None, deadline: float) -> AsyncInspecting:
        """Return the session to use, opening one where there is none; None takes any ttl."""
        reading = self._reading
        while reading is None or not self._fits(reading.session, ttl):
            opening = await self._opening.fly(
                partial(self._open, ttl, deadline), deadline=deadline + LAST_WORD
            )
            if opening.is_known:
                opening.result()
            elif opening.is_cut_off:
                raise BackendUnavailable(f"{self.location}: closed before there was a session")
            if self._clock.now() >= deadline:
                raise BackendUnavailable(f"{self.location}: there was no time left to connect")
            reading = self._reading
        return reading

    def _fits(self, session: AsyncSession, ttl: float | None) -> bool:
        if not session.is_usable(self._clock.now()):
            return False
        if ttl is None or session.asked == ttl:
            return True
        if session.carried:
            raise ConfigurationError(
                f"ttl={ttl!r}: this client's session was opened for {session.asked!r} s and "
                "carries all its locks; use another client for another ttl"
            )
        return False

    async def _open(self, ttl: float | None, deadline: float) -> None:
        self._ttl = ttl or self._ttl
        old, parting = self._reading, None
        try:
            session = parting = AsyncSession(
                self._new_wire, ttl=self._ttl, clock=self._clock, alarm=self._raise_alarm
            )
            await session.open(deadline=deadline)
            self._reading = AsyncInspecting(session, self._clock)
            parting = None if old is None else old.session
        finally:
            if parting is not None:
                await self._part_from(parting)

    def _raise_alarm(self) -> None:
        for hurry in self._alarms:
            hurry()

    async def _part_from(self, session: AsyncSession) -> None:
        """Close a session that is not used any more, beside the caller, who has no time."""
        session.end()

        async def close() -> None:
            await session.close(goodbye=True)

        self._leaving = [one for one in self._leaving if one.is_alive()]
        try:
            self._leaving.append(runtime.spawn(close, name="lockfast-goodbye"))
        except RuntimeError:
            # No thread is to be had. Nobody else would ever close it, and what it has of its own
            # goes on: a thread that listens, a connection, a session in the store.
            await close()

    async def _leave(self, *, goodbye: bool) -> None:
        with self._state:
            reading, self._reading = self._reading, None
        if reading is not None:
            try:
                await reading.session.close(goodbye=goodbye)
            finally:
                for claim_id, one in list(self._carriers.items()):
                    if one is reading:
                        self._carriers.pop(claim_id, None)
