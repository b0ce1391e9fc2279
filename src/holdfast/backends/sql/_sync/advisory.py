# Generated from src/holdfast/backends/sql/_async/advisory.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The verbs by advisory locks: no table, one connection, and nothing that outlives it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast._sync.wakeups import Wakeups
from holdfast.backends.sql._sync.advisory_sessions import AdvisorySessions
from holdfast.backends.sql.ending import SessionEnded
from holdfast.backends.sql.lines import LESS_QUICK, QUICK
from holdfast.backends.sql.local_lines import LocalLines
from holdfast.core.backoff import delay
from holdfast.core.tombs import Tombs
from holdfast.errors import ConfigurationError, LockError, OutcomeUnknown
from holdfast.model import (
    Capabilities,
    Grant,
    Held,
    Holder,
    Inspection,
    Owner,
    Proven,
    Renewal,
    TokenQuality,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from holdfast.backends.sql._sync.advisory_session import AdvisorySession
    from holdfast.backends.sql.steps import Rows
    from holdfast.model import Claim

FRESH = 0.5
"""A proof that is younger than this part of the ttl renews a lease; heartbeats come sooner."""

NAMED_AGAIN = 10
"""Of so many questions in vain, one asks who holds it too: that costs more than the others."""


class AdvisoryBackend(AdvisorySessions):
    """Locks that a session of the server carries. A store says how it is opened and asked."""

    capabilities = Capabilities(
        fair=False,
        shared=False,
        push_wakeup=False,
        explicit_owner=False,
        lock_delay=False,
        token_quality=TokenQuality.NONE,
        ends_by="session",
        keeps_records=False,
    )
    min_ttl = 0.05

    def _begin(self) -> None:
        super()._begin()
        self._lines = LocalLines()
        self._wakeups = Wakeups(self._clock)
        self._waiting: dict[str, tuple[Holder, ...]] = {}
        """Those who wait, each with who was last seen to hold what it wants."""
        self._tombs = Tombs()

    # -- taking and giving back --------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See the protocol."""
        if self._tombs.has(claim, now=self._clock.now()):
            return Held(())
        key = self._statements.key_of(claim.name)
        if claim.queues and not self._is_first(key, claim):
            return Held(self._holders_here(key))
        try:
            session, has_it = self._taken(key, claim, deadline)
        except OutcomeUnknown:
            raise  # it is asked for again, or withdrawn
        except LockError:
            # Nothing was done, so nobody withdraws it: those behind it would wait for ever.
            self._leave_line(key, claim.id)
            self._carriers.pop(claim.id, None)
            raise
        if has_it:
            self._leave_line(key, claim.id)
            return Grant(claim, None, session.ttl, counted_from=session.counted_from)
        self._carriers.pop(claim.id, None)
        if not claim.queues:
            # The first in our line may have asked meanwhile, and was told that one of ours does.
            self._freed(key)
        return self._held(session, key, claim, deadline, is_ours=has_it is None)

    def _taken(
        self, key: Hashable, claim: Claim, deadline: float
    ) -> tuple[AdvisorySession, bool | None]:
        """Ask for the lock, by another session if the first one ends meanwhile."""
        while True:
            session = self._carriers[claim.id] = self._opened(claim.ttl, deadline)
            # Where it ended nothing of it can be left: what it carried went with it.
            with suppress(SessionEnded):
                return session, session.take(key, claim, deadline=deadline)

    def _is_first(self, key: Hashable, claim: Claim) -> bool:
        """Let the claim stand in our own line; whether it is the one that asks."""
        with self._state:
            if claim.id not in self._waiting:
                # Before it stands there: a ring between joining and listening is not lost.
                self._wakeups.expect(claim.id)
                self._waiting[claim.id] = ()
            return self._lines.join(key, claim.id)

    def _held(
        self,
        session: AdvisorySession,
        key: Hashable,
        claim: Claim,
        deadline: float,
        *,
        is_ours: bool,
    ) -> Held:
        if is_ours:
            return Held(self._holders_here(key))  # it is rung when that one is given back
        with self._state:
            before = self._lines.asked(key, claim.id)
            holders = self._waiting.get(claim.id, ())
        if before % NAMED_AGAIN == 0:
            # Whatever it is, the answer is known without: this is for people.
            with suppress(LockError):
                rows = session.look(self._statements.holders(key), deadline=deadline)
                holders = self._told(session, key, rows)
            with self._state:
                if claim.id in self._waiting:
                    self._waiting[claim.id] = holders
        pause = delay(before, jitter=self._clock.jitter(), first=QUICK, most=LESS_QUICK)
        return Held(holders, None, pause)

    def _carrier_of(self, grant: Grant) -> AdvisorySession | None:
        carrier, claim = self._carriers.get(grant.claim.id), grant.claim
        if carrier is None or not carrier.holds(self._statements.key_of(claim.name), claim.id):
            return None
        return carrier

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> Sequence[Renewal | Proven]:
        """See the protocol: one heartbeat of the session, shared by all its claims."""
        carriers = [self._carrier_of(grant) for grant in grants]
        outcomes = {one: self._proven(one, deadline) for one in set(carriers) if one is not None}
        return [Renewal.LOST if one is None else outcomes[one] for one in carriers]

    def _proven(self, session: AdvisorySession, deadline: float) -> Renewal | Proven:
        now = self._clock.now()
        try:
            if not session.is_usable(now):
                return Renewal.LOST
            # As a rule one of the session's own heartbeats has proven it not long ago.
            if now - session.counted_from > FRESH * session.ttl:
                session.prove(deadline=deadline)
        except SessionEnded:
            return Renewal.LOST
        except LockError:
            return Renewal.UNKNOWN
        return Proven(session.counted_from)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See the protocol."""
        return self._end(grant.claim, deadline=deadline, tombstone=tombstone)

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See the protocol."""
        self._end(claim, deadline=deadline, tombstone=tombstone)

    def _end(self, claim: Claim, *, deadline: float, tombstone: bool) -> bool:
        """Let the claim neither hold nor wait; whether it held."""
        if tombstone:
            self._bury(claim)
        key = self._statements.key_of(claim.name)
        self._leave_line(key, claim.id)
        carrier = self._carriers.get(claim.id)
        if carrier is None:
            return False
        was_held = False
        # A session that may not be used any more is not kept alive either.
        if carrier.is_usable(self._clock.now()):
            with suppress(SessionEnded):
                was_held = carrier.give_back(key, claim, deadline=deadline)
        self._carriers.pop(claim.id, None)
        return was_held

    def _leave_line(self, key: Hashable, claim_id: str) -> None:
        # All of it each time: an interrupt may have struck before it was done.
        with self._state:
            self._lines.leave(key, claim_id)
            self._wakeups.forget(claim_id)
            self._waiting.pop(claim_id, None)
        self._freed(key)

    def _bury(self, claim: Claim) -> None:
        """Remember that a claim is over: all requests for it come through here."""
        with self._state:
            self._tombs.bury(claim, now=self._clock.now())

    # -- waiting -----------------------------------------------------------------------

    def wait(self, claim: Claim, *, deadline: float) -> None:
        """See the protocol."""
        self._wakeups.wait(claim.id, deadline=deadline)

    def rouse(self, claim: Claim) -> None:
        """See the protocol."""
        self._wakeups.ring(claim.id)

    def _freed(self, key: Hashable) -> None:
        """Let whoever is first in our own line ask."""
        first = self._lines.first(key)
        if first is not None:
            self._wakeups.ring(first)

    # -- looking -----------------------------------------------------------------------

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """See the protocol; a holder elsewhere is known by its connection alone."""
        key = self._statements.key_of(name)

        def look(session: AdvisorySession) -> tuple[Holder, ...]:
            rows = session.look(self._statements.holders(key), deadline=deadline)
            return self._told(session, key, rows)

        return Inspection(name, 1, self._by_session(look, deadline), ())

    def survey(self, prefix: str, *, deadline: float) -> Iterator[Inspection]:
        """See the protocol; the server knows no names, only what they were hashed to."""
        del prefix, deadline
        raise ConfigurationError(
            f"{self.location} keeps no names with mode=advisory, so they cannot be listed; ask for "
            "one by its name"
        )

    def break_(
        self, name: str, *, token: int | None = None, owner: str | None = None, deadline: float
    ) -> tuple[Holder, ...]:
        """See the protocol; here a lease ends with its session, and all others of it."""
        del token, owner
        key = self._statements.key_of(name)
        rows = self._by_session(
            lambda session: session.look(self._statements.holders(key), deadline=deadline),
            deadline,
        )
        if not rows:
            return ()
        statement = self._statements.end_session(int(rows[0][0]))
        raise ConfigurationError(
            f"with mode=advisory a lease cannot be broken alone, since its connection carries all "
            f"locks of its client; to end them all, say {statement}",
            name=name,
        )

    def _told(self, session: AdvisorySession, key: Hashable, rows: Rows) -> tuple[Holder, ...]:
        """Return who holds; of our own session it is known which claim does."""
        holders: list[Holder] = []
        for number, user, host, program in rows:
            if number == session.number and (ours := self._holders_here(key)):
                holders += ours
                continue
            label = f"connection {number} of {user}" + (f", {program}" if program else "")
            owner = Owner(host=str(host or "local"), pid=0, label=label)
            holders.append(Holder(owner=owner, token=None, weight=1, age=None, remaining=None))
        return tuple(holders)

    def _holders_here(self, key: Hashable) -> tuple[Holder, ...]:
        session = self._session
        standing = None if session is None else session.standings.get(key)
        if standing is None or not standing.is_held:
            return ()
        age = max(0.0, self._clock.now() - standing.since)
        owner = Owner.from_text(standing.claim.owner)
        return (Holder(owner=owner, token=None, weight=1, age=age, remaining=None),)

    def _raise_alarm(self) -> None:
        """Let holders be told, and those who wait ask by another session."""
        for hurry in self._alarms:
            hurry()
        for claim_id in list(self._waiting):
            self._wakeups.ring(claim_id)
