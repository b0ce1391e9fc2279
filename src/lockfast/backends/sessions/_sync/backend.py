# Generated from src/lockfast/backends/sessions/_async/backend.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The backend for a store with sessions; it records which claim belongs to which session."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lockfast.backends._sync.backend import Backend
from lockfast.backends._sync.single_flight import FLIGHT_GRACE_SECONDS, SingleFlight
from lockfast.backends.sessions._sync.recipe import Inspector
from lockfast.backends.sessions._sync.session import Session
from lockfast.backends.sessions.records import SessionEnded, UnreadableRecord
from lockfast.core.door import Tombstones
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError, OutcomeUnknown
from lockfast.model import Held, Proven, Renewal
from lockfast.options import DEFAULT_TTL
from lockfast.runtime import fork
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockfast.backends.sessions._sync.transport import SessionTransport
    from lockfast.backends.sessions.records import SessionClaim
    from lockfast.model import Claim, Finding, Grant, Holder, Inspection
    from lockfast.runtime.clock import Clock


# How a session renews its claims: one keep-alive for all claims, and a read of the entries that the
# session has not seen yet.
#
# A hold is proven only if the token in the store equals the token that was granted. The mere
# presence of an entry at the key is not enough. An entry that was deleted and created again, by a
# late copy of an acquire or by hand, is not the hold, and other claims may have been admitted
# meanwhile.


def renewed(
    session: Session, grants: Sequence[Grant], *, clock: Clock, deadline: float
) -> dict[str, Renewal | Proven]:
    """Return what became of each grant, by its claim's id."""
    outcome: Renewal | Proven = Renewal.LOST
    try:
        if session.is_usable(clock.now()):
            # If there is no connection, report that to the holder now, not when the request times
            # out. The session's own keep-alive keeps trying.
            is_proven = session.transport.is_connected and session.prove(deadline=deadline)
            outcome = Proven(session.counted_from) if is_proven else Renewal.UNKNOWN
    except SessionEnded:
        outcome = Renewal.LOST
    except LockError:
        outcome = Renewal.UNKNOWN
    outcomes = dict.fromkeys((grant.claim.id for grant in grants), outcome)
    if isinstance(outcome, Proven):
        outcomes.update(_lost_entries(session, grants, deadline))
    return outcomes


def _lost_entries(session: Session, grants: Sequence[Grant], deadline: float) -> dict[str, Renewal]:
    """Return the outcome for each grant whose entry is no longer in the store.

    The session is alive, so an operator broke such a hold. A claim that the session does not know
    is lost.
    """
    found: dict[str, Renewal] = {}
    unseen: list[tuple[SessionClaim, str]] = []
    for grant in grants:
        one = session.carried.get(grant.claim.id)
        if one is None or one.key is None:
            found[grant.claim.id] = Renewal.LOST
        elif one.token != grant.token:
            found[grant.claim.id] = Renewal.BROKEN
        elif not one.is_seen:
            unseen.append((one, one.key))
    if unseen:
        found.update(_read_unseen(session, unseen, deadline))
    return found


def _read_unseen(
    session: Session, unseen: Sequence[tuple[SessionClaim, str]], deadline: float
) -> dict[str, Renewal]:
    for one, _ in unseen:
        one.is_seen = True  # set before the request, because the watch may fire at once
    watches, found = session.watches, dict[str, Renewal]()
    try:
        seen = session.transport.read(
            [(key, watches.on(key, one.claim.id)) for one, key in unseen], deadline=deadline
        )
    except LockError:
        for one, _ in unseen:
            one.is_seen = False
        return found
    for (one, key), there in zip(unseen, seen, strict=True):
        if there is None or there.token != one.token:
            watches.drop(key)
            found[one.claim.id] = Renewal.BROKEN
    return found


T = TypeVar("T")

_log = logging.getLogger("lockfast")

INSPECT_TRIES = 3
"""Maximum number of times that a read is repeated after its connection was lost. Without a limit,
the client would ask for ever if the server closed the connection each time."""

BROKEN_KEPT = 64
"""Maximum number of broken claims that are remembered until their holders renew; beyond it the
oldest claim is dropped.
"""


class SessionsBackend(Backend):
    """Locks in a store with sessions: one session for all claims of a client.

    A store's backend inherits from this class, declares its capabilities and its address, calls
    `_set_up`, and provides its transport.
    """

    def _new_transport(self, ttl: float, changed: Callable[[], None]) -> SessionTransport:
        """Return the transport for a new session, which is not open yet."""
        raise NotImplementedError

    def _set_up(self, *, location: str, clock: Clock) -> None:
        self.location = location
        self._clock = clock
        self._ttl = DEFAULT_TTL
        self._renewal_callbacks: list[Callable[[], None]] = []
        self._begin()
        fork.reset_in_child(self)

    def _begin(self) -> None:
        self._state = runtime.StateLock()
        self._reading: Inspector | None = None
        self._opening = SingleFlight[None](self._clock)
        self._carriers: dict[str, Inspector] = {}
        self._tombstones = Tombstones()
        self._broken: dict[str, None] = {}
        self._closing_tasks: list[runtime.Task] = []

    # -- the verbs of the port ---------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        if self._tombstones.has(claim, now=self._clock.now()):
            return Held(())
        while True:
            reading = self._carriers[claim.id] = self._opened(claim.ttl, deadline)
            try:
                answer = reading.try_acquire(claim, deadline=deadline)
                break
            except SessionEnded:
                # The claim's entry ended with the session, so the claim can start again on a new
                # session.
                continue
            except LockError:
                if claim.id not in reading.session.carried:
                    self._carriers.pop(claim.id, None)
                raise
        if isinstance(answer, Held) and not claim.queues:
            self._carriers.pop(claim.id, None)
        return answer

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal | Proven]:
        """Renew with one keep-alive per session, which covers all claims of the session."""
        outcomes: dict[str, Renewal | Proven] = {}
        by_session: dict[Inspector, list[Grant]] = {}
        for grant in grants:
            carrier = self._carriers.get(grant.claim.id)
            if carrier is None:
                is_broken = grant.claim.id in self._broken
                outcomes[grant.claim.id] = Renewal.BROKEN if is_broken else Renewal.LOST
            else:
                by_session.setdefault(carrier, []).append(grant)
        for carrier, carried in by_session.items():
            outcomes.update(renewed(carrier.session, carried, clock=self._clock, deadline=deadline))
        return [outcomes[grant.claim.id] for grant in grants]

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        claim = grant.claim
        carrier = self._carriers.get(claim.id)
        if tombstone:
            self._add_tombstone(claim)
        if carrier is None:
            return False
        was_ours = False
        if carrier.session.is_usable(self._clock.now()):
            try:
                was_ours = carrier.release(claim, deadline=deadline)
            except SessionEnded:
                was_ours = False
            else:
                self._remember_broken(claim, is_broken=not was_ours)
        carrier.session.forget(claim.id)
        self._carriers.pop(claim.id, None)
        return was_ours

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        if tombstone:
            self._add_tombstone(claim)
        carrier = self._carriers.get(claim.id)
        if carrier is None:
            return
        # A session that is no longer usable is not kept alive either, so its claims end with the
        # session.
        if carrier.session.is_usable(self._clock.now()):
            with suppress(SessionEnded):
                carrier.withdraw(claim, deadline=deadline)
        carrier.session.forget(claim.id)
        self._carriers.pop(claim.id, None)

    def wait(self, claim: Claim, *, deadline: float) -> None:
        carrier = self._carriers.get(claim.id)
        if carrier is not None:
            carrier.session.wakeups.wait(claim.id, deadline=deadline)

    def wake(self, claim: Claim) -> None:
        carrier = self._carriers.get(claim.id)
        if carrier is not None:
            carrier.session.wakeups.wake(claim.id)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        return self._look(lambda one: one.inspect(name, deadline=deadline), deadline)

    def attest(self, name: str, *, deadline: float) -> Inspection:
        return self._look(lambda one: one.inspect(name, confirm=True, deadline=deadline), deadline)

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """Yield every name in use; each request gets the full time, as there may be many names."""
        patience = deadline - self._clock.now()
        names = self._look(lambda one: one.names(prefix, deadline=deadline), deadline)
        for name in names:
            try:
                one = self.inspect(name, deadline=self._clock.now() + patience)
            except UnreadableRecord as error:
                # An unreadable record must not hide all other names.
                _log.warning("left out: %s", error)
                continue
            if one.is_in_use:
                yield one

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """Break the holders; `owner` is ignored, as these stores have no explicit owners."""
        del owner
        reading = self._inspector(deadline)
        return reading.break_(name, token=token, deadline=deadline)

    def diagnose(self, *, deadline: float) -> Sequence[Finding]:
        seconds = deadline - self._clock.now()
        session = self._inspector(deadline).session
        return session.transport.diagnose(
            asked=session.asked, granted=session.ttl, seconds=seconds, deadline=deadline
        )

    def attach(self, *, ttl: float, hurry: Callable[[], None]) -> None:
        self._ttl = ttl
        self._renewal_callbacks.append(hurry)

    def disown(self, client: str, *, deadline: float) -> None:
        """Leave the session open; the store ends it after its timeout."""
        del client, deadline
        self._leave(goodbye=False)

    def close(self) -> None:
        self._opening.end()
        reading = self._reading
        try:
            # If a name has to stay closed for a while, leave without a goodbye. Then the name stays
            # closed until the store ends the session.
            self._leave(goodbye=reading is None or not reading.session.closing)
        finally:
            for task in self._closing_tasks:
                task.join()
            self._closing_tasks.clear()

    def after_fork_in_child(self) -> None:
        """Abandon the parent's sessions; the child begins without a session."""
        for carrier in {*self._carriers.values(), *filter(None, [self._reading])}:
            carrier.session.abandon_connection()
        self._begin()

    def _look(self, act: Callable[[Inspector], T], deadline: float) -> T:
        """Return the result of `act`; repeat `act` on another session if the first session ends.

        Reading changes nothing, so a request that was lost with its connection is sent again.
        """
        lost = 0
        while True:
            reading = self._inspector(deadline)
            try:
                return act(reading)
            except SessionEnded:
                continue
            except OutcomeUnknown:
                lost += 1
                if lost > INSPECT_TRIES or self._clock.now() >= deadline:
                    raise

    def _inspector(self, deadline: float) -> Inspector:
        """Return an inspector for reads and breaks, on a session with any ttl."""
        return self._opened(None, deadline)

    # -- tombstones --------------------------------------------------------------------

    def _remember_broken(self, claim: Claim, *, is_broken: bool) -> None:
        """Remember for a while that an operator broke this hold; its renewal reports that."""
        if not is_broken:
            return
        with self._state:
            self._broken[claim.id] = None
            if len(self._broken) > BROKEN_KEPT:
                del self._broken[next(iter(self._broken))]

    def _add_tombstone(self, claim: Claim) -> None:
        """Remember that a claim has ended, so that this backend refuses later requests for it."""
        with self._state:
            self._tombstones.bury(claim, now=self._clock.now())

    # -- sessions ----------------------------------------------------------------------

    def _opened(self, ttl: float | None, deadline: float) -> Inspector:
        """Return the session to use, after opening one if none fits; with ttl None, any fits."""
        reading = self._reading
        while reading is None or not self._fits(reading.session, ttl):
            opening = self._opening.run_shared(
                partial(self._open, ttl, deadline), deadline=deadline + FLIGHT_GRACE_SECONDS
            )
            if opening.is_known:
                opening.result()
            elif opening.is_stopped:
                raise BackendUnavailable(f"{self.location}: closed before there was a session")
            if self._clock.now() >= deadline:
                raise BackendUnavailable(f"{self.location}: there was no time left to connect")
            reading = self._reading
        return reading

    def _fits(self, session: Session, ttl: float | None) -> bool:
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

    def _open(self, ttl: float | None, deadline: float) -> None:
        self._ttl = ttl or self._ttl
        old, unused_session = self._reading, None
        try:
            session = unused_session = Session(
                self._new_transport, ttl=self._ttl, clock=self._clock, alarm=self._request_renewal
            )
            session.open(deadline=deadline)
            self._reading = Inspector(session, self._clock)
            unused_session = None if old is None else old.session
        finally:
            if unused_session is not None:
                self._close_in_background(unused_session)

    def _request_renewal(self) -> None:
        for hurry in self._renewal_callbacks:
            hurry()

    def _close_in_background(self, session: Session) -> None:
        """Close an unused session in the background, because the caller has no time."""
        session.end()

        def close() -> None:
            session.close(goodbye=True)

        self._closing_tasks = [one for one in self._closing_tasks if one.is_alive()]
        try:
            self._closing_tasks.append(runtime.spawn(close, name="lockfast-goodbye"))
        except RuntimeError:
            # No thread could be started, so close the session now. Otherwise its listening thread,
            # its connection and its session in the store would stay.
            close()

    def _leave(self, *, goodbye: bool) -> None:
        with self._state:
            reading, self._reading = self._reading, None
        if reading is not None:
            try:
                reading.session.close(goodbye=goodbye)
            finally:
                for claim_id, one in list(self._carriers.items()):
                    if one is reading:
                        self._carriers.pop(claim_id, None)
