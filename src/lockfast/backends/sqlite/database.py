"""The verbs of the port on the SQLite file, each in one short transaction.

core/door.py makes the decisions, backends/sql defines what a verb reads and writes, dialect.py has
the statements, and connection.py opens the file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from lockfast.backends.sql.steps import Query, alone
from lockfast.backends.sql.verbs import Decided, Verbs
from lockfast.backends.sqlite import diagnostics
from lockfast.backends.sqlite.connection import SqliteConnection
from lockfast.backends.sqlite.dialect import (
    SqliteDialect,
    SqliteReaper,
    admitted_at,
    crowds,
    grant_if_empty,
    nearest_before,
    release_if_alone,
)
from lockfast.backends.sqlite.doorbell import Doorbell
from lockfast.backends.sqlite.wait_schedule import Waiters
from lockfast.core.door import (
    ADMISSION_WINDOW_SECONDS,
    ADMITTED,
    HOLDING,
    TOMBSTONE_SECONDS,
    WAITING,
    next_token,
)
from lockfast.core.naming import storage_key
from lockfast.model import Crowd, Grant, Held, Window
from lockfast.runtime import fork
from lockfast.runtime.worker import DeferredCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lockfast.backends.sql.door_rows import Arrived
    from lockfast.backends.sql.steps import Rows, Steps
    from lockfast.backends.sqlite.presence import Presence
    from lockfast.model import Claim, Finding, Holder, Inspection, Renewal
    from lockfast.runtime.clock import Clock

# Names at which this client has found other claims, so that the single statement of an uncontended
# acquire would do nothing.
#
# Such a statement takes the file's only write lock even if it does nothing. So a claim for a name
# in this set goes through the door at once. The set is only a guess, and a wrong guess costs
# little.

CROWDED_NAMES_MAX = 4096
"""Maximum number of remembered names, so that a program with a lock per order id does not fill the
memory."""


class CrowdedNames(set[str]):
    """One client's crowded names; a name is removed once a claim turns out to be alone there."""

    def add(self, name: str) -> None:
        """Remember that another claim was at the name."""
        if len(self) >= CROWDED_NAMES_MAX:
            self.clear()
        super().add(name)


T = TypeVar("T")


# Runs steps on the connection. Writes run in a transaction, and wakeups follow it; reads need none.


class StepRunner:
    """Runs steps on one client's connection, one call at a time."""

    def __init__(
        self, connection: SqliteConnection, bell: Doorbell, deferred_calls: DeferredCalls
    ) -> None:
        self._connection = connection
        self._bell = bell
        self._deferred = deferred_calls

    def transact(self, steps: Steps[Decided[T]], deadline: float) -> T:
        """Run the steps in a transaction, then wake the claims that they admitted or refused."""
        rings: list[str] = []

        def work() -> T:
            decided = self._run(steps)
            rings.extend(place.bell for place in decided.woken)
            return decided.answer

        try:
            answer = self._connection.transact(work, deadline)
        finally:
            # Wake after the commit, because a woken claim must find its entry. Wake also after an
            # interrupt, when it is unknown whether there was a commit, because a spurious wakeup
            # does no harm.
            self._bell.ring(rings)
            self._deferred.do()
        return answer

    def look(self, steps: Callable[[], Steps[T]], deadline: float) -> T:
        """Run steps that only read, without a transaction; restart if the file is locked."""
        return self._connection.patiently(lambda: self._run(steps()), deadline)

    def _run(self, steps: Steps[T]) -> T:
        connection = self._connection
        answers: list[Rows] | None = None
        while True:
            try:
                asked = steps.send(answers)  # type: ignore[arg-type]  # None begins them
            except StopIteration as end:
                answer: T = end.value
                return answer
            answers = []
            for one in asked:
                if isinstance(one, Query):
                    answers.append(connection.execute(one.statement, one.values).fetchall())
                else:
                    connection.execute_many(one.statement, one.rows)
                    answers.append(())


DEFERRED_TIMEOUT_SECONDS = 2.0
"""Timeout for deferred calls, in seconds."""

NO_CROWD = Crowd(0, None)
PUSHED_GRANT_FRACTION = 0.5
"""Fraction of the admission window during which a claim uses a pushed grant as it is. Later the
claim asks for a hold with a full ttl, because the first renewal might not fit into the rest of the
window."""

WATCHED_STATES = (HOLDING, ADMITTED, WAITING)


class Database:
    """The verbs of the port on one client's connection; calls come one at a time.

    `tell` is called, on any thread, with a claim of this client that should ask again.
    """

    def __init__(
        self,
        path: Path,
        *,
        namespace: str,
        clock: Clock,
        create: bool,
        synchronous: str,
        tell: Callable[[str], None],
    ) -> None:
        self.bell: Doorbell = Doorbell()
        self.waiters: Waiters = Waiters()
        self.connection: SqliteConnection = SqliteConnection(
            path, clock=clock, create=create, synchronous=synchronous
        )
        self._clock = clock
        self._namespace = namespace
        self._synchronous = synchronous
        self._wake_claim = tell
        self._reaper = SqliteReaper(self.connection)
        self._deferred = DeferredCalls()
        self._verbs = Verbs(SqliteDialect(self.connection.now), namespace=namespace)
        self._driver = StepRunner(self.connection, self.bell, self._deferred)
        self._tombstones: dict[str, float] = {}
        self._crowded = CrowdedNames()
        fork.reset_in_child(self)

    # -- the verbs ---------------------------------------------------------------------

    def try_acquire(
        self, claim: Claim, *, deadline: float, was_woken: bool = False
    ) -> Grant | Held:
        """Apply `Door.arrive`, after freeing the name if its holder's process is dead.

        If the claim was woken, this first checks whether the claim was admitted.
        """
        presence = self.connection.open(deadline, client=claim.client)
        if self._tombstones and claim.id in self._tombstones:
            return Held(())
        waiters, name = self.waiters, claim.name
        if not (name in self._crowded or (waiters.has_waiters and waiters.is_waiting_at(name))):
            grant = self._grant_if_empty(claim, deadline)
            if grant is not None:
                # The doorbell may still have an address for this claim, if an earlier request for
                # the claim failed.
                if self.bell.has_claims:
                    self.stop_waiting(claim)
                return grant
            self._crowded.add(name)
        elif was_woken:
            grant = self._pushed_grant(claim, deadline)
            if grant is not None:
                self.stop_waiting(claim)
                return grant
        return self._join_line(claim, presence, deadline)

    def _join_line(self, claim: Claim, presence: Presence, deadline: float) -> Grant | Held:
        """Return the door's answer, after removing dead clients from the door."""
        is_new = claim.queues and self.waiters.arrival_of(claim) is None
        while True:
            answer = self._ask(claim, deadline)
            if isinstance(answer, Grant):
                self.stop_waiting(claim)
                return answer
            # A new claim behind other claims does not check for dead clients yet. The claims ahead
            # do that, and the new claim does so later.
            is_behind = is_new and answer.place is not None and answer.place > 1
            watched = () if is_behind else self.waiters.watched_by(claim)
            gone = [one for one in watched if presence.is_gone(one)]
            if gone:
                self._driver.transact(self._verbs.forget(gone), deadline)
            elif answer.place is None:
                self.stop_waiting(claim)
                return answer
            else:
                return answer if self.waiters.is_first(claim) else replace(answer, retry_in=None)

    def _ask(self, claim: Claim, deadline: float) -> Grant | Held:
        arrived = self.waiters.arrival_of(claim)
        if arrived is not None:
            waiting = self._driver.look(lambda: self._still_waiting(claim, arrived), deadline)
            if waiting is not None:
                return waiting
        bell = self.bell.hang(claim.id) if claim.queues else ""
        return self._driver.transact(self._arrive(claim, bell, arrived), deadline)

    def _grant_if_empty(self, claim: Claim, deadline: float) -> Grant | None:
        key = storage_key(self._namespace, claim.name)
        now = self.connection.now()
        token = next_token(last=0, clock=now)
        statement, values = grant_if_empty(key, claim, now=now, token=token)
        is_granted = self.connection.write(statement, values, deadline)
        return Grant(claim, token, claim.ttl) if is_granted else None

    def _arrive(self, claim: Claim, bell: str, arrived: int | None) -> Steps[Decided[Grant | Held]]:
        decided = yield from self._verbs.arrive(claim, bell=bell, arrived=arrived)
        if isinstance(decided.answer, Grant):
            self._crowded.discard(claim.name)
        yield from self._record_waiter(claim, decided)
        return Decided(decided.answer, decided.door.woken)

    def _still_waiting(self, claim: Claim, arrived: int) -> Steps[Held | None]:
        """Return the answer to a claim that is not admitted yet; read without a transaction."""
        decided = yield from self._verbs.still_waiting(claim, arrived=arrived)
        if decided is None or isinstance(decided.answer, Grant):
            return None
        yield from self._record_waiter(claim, decided)
        return decided.answer

    def _pushed_grant(self, claim: Claim, deadline: float) -> Grant | None:
        """Return the grant that another client's release made; None if the claim has to ask.

        The releasing client has recorded that the claim holds the name for an admission window, and
        no other client ends that hold earlier. So the hold need not be written again; the first
        renewal extends it to a full ttl.
        """
        arrived = self.waiters.arrival_of(claim)
        if arrived is None or not is_plain(claim):
            return None
        ask = admitted_at(storage_key(self._namespace, claim.name), claim, arrived)
        for token, since, until in self._driver.look(lambda: alone(ask), deadline):
            if self.connection.now() - since <= (until - since) * PUSHED_GRANT_FRACTION:
                window = Window(self.connection.local(since), until - since)
                return Grant(claim, token, claim.ttl, window)
        return None

    def _record_waiter(self, claim: Claim, decided: Arrived) -> Steps[None]:
        """Record the arrival of a claim that was not admitted, and the clients to watch for it.

        The claim watches the clients of all entries inside, of the front of the line, and of the
        entry just ahead of the claim.
        """
        answer, door = decided
        if isinstance(answer, Grant):
            return
        place = door.find(claim.id)
        if place is not None and answer.place is not None:
            self._wake_next(self.waiters.join(claim, arrived=place.arrived))
        if place is not None and not self.waiters.is_first(claim):
            return
        clients = {one.claim.client for one in door.places if one.state in WATCHED_STATES}
        if place is not None and not door.is_whole:
            key = storage_key(self._namespace, claim.name)
            [nearest] = yield [nearest_before(key, place.arrived)]
            clients.update(client for (client,) in nearest)
        self.waiters.watch(claim, clients - {claim.client})

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> list[Renewal]:
        """Apply `Door.renew` to the whole batch, in one transaction."""
        self.connection.open(deadline)
        return self._driver.transact(self._verbs.renew([one.claim for one in grants]), deadline)

    def hand_over(self, claim: Claim, *, deadline: float) -> Renewal:
        """Apply `Door.hand_over`."""
        # Announce the new client, because otherwise the next check would take it for dead.
        self.connection.open(deadline, client=claim.client)
        return self._driver.transact(self._verbs.hand_over(claim), deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """Apply `Door.release`; inside a transaction of this thread it is deferred."""
        claim = grant.claim
        if tombstone:
            self._add_tombstone(claim)
        if self.connection.is_inside:
            self._deferred.add(lambda: self._release(claim, self._deferred_deadline(claim)))
            return True
        return self._release(claim, deadline)

    def _release(self, claim: Claim, deadline: float) -> bool:
        self.connection.open(deadline)
        now = self.connection.now()
        key = storage_key(self._namespace, claim.name)
        statement, values = release_if_alone(key, claim, now=now)
        is_crowded = claim.name in self._crowded
        if not is_crowded and self.connection.write(statement, values, deadline):
            self._reaper.reap_if_due(deadline)
            self._deferred.do()
            return True
        self._crowded.add(claim.name)
        return self._driver.transact(self._release_to_next(claim, now), deadline)

    def _release_to_next(self, claim: Claim, now: float) -> Steps[Decided[bool]]:
        decided = yield from self._verbs.release(claim, at=now)
        if not decided.woken:
            self._crowded.discard(claim.name)
        return decided

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """Apply `Door.withdraw`; inside a transaction of this thread it is deferred."""
        if tombstone:
            self._add_tombstone(claim)
        if self.connection.is_inside:
            self._deferred.add(lambda: self._withdraw(claim, self._deferred_deadline(claim)))
        else:
            self._withdraw(claim, deadline)

    def _withdraw(self, claim: Claim, deadline: float) -> None:
        self.connection.open(deadline)
        arrived = self.waiters.arrival_of(claim)
        self._driver.transact(self._verbs.withdraw(claim, arrived=arrived), deadline)
        self.stop_waiting(claim)

    def break_(
        self, name: str, *, token: int | None, owner: str | None, deadline: float
    ) -> tuple[Holder, ...]:
        """Apply `Door.break_`."""
        self.connection.open(deadline)
        return self._driver.transact(self._verbs.break_(name, token=token, party=owner), deadline)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return the state of the name; writes nothing."""
        self.connection.open(deadline)
        return self._driver.look(lambda: self._verbs.inspect(name), deadline)

    def crowds(self, names: Sequence[str], *, deadline: float) -> list[Crowd]:
        """Return how many claims are at each of the names; writes nothing."""
        self.connection.open(deadline)
        return self._driver.look(lambda: self._crowds(names), deadline)

    def _crowds(self, names: Sequence[str]) -> Steps[list[Crowd]]:
        keys = [storage_key(self._namespace, name) for name in names]
        [rows] = yield [crowds(keys, now=self.connection.now())]
        known = {key: Crowd(number, token or None) for key, number, token in rows}
        return [known.get(key, NO_CROWD) for key in keys]

    def survey(self, prefix: str, *, deadline: float) -> list[Inspection]:
        """Return all names in use that begin with the prefix, in byte order."""
        self.connection.open(deadline)
        return self._driver.look(lambda: self._verbs.survey(prefix), deadline)

    def disown(self, client: str, *, deadline: float) -> None:
        """Make the client's holds last until their ttl ends, although the client leaves."""
        self.connection.open(deadline)
        statement = "UPDATE places SET client = '' WHERE client = ?"
        self.connection.write(statement, (client,), deadline)

    def diagnose(self, *, deadline: float) -> list[Finding]:
        """Return the findings about the guarantees of locks in this file."""
        self.connection.open(deadline)
        return diagnostics.findings(
            self.connection, synchronous=self._synchronous, deadline=deadline
        )

    # -- waiting -----------------------------------------------------------------------

    def is_any_dead(self, claim: Claim) -> bool:
        """Return whether a client ahead of a waiting claim is dead; run no statement for that."""
        is_gone = self.connection.presence.is_gone
        return any(is_gone(client) for client in self.waiters.watched_by(claim))

    def stop_waiting(self, claim: Claim) -> None:
        """Forget a waiting claim; our next claim at this name has to check from now on."""
        self.bell.unregister(claim.id)
        self._wake_next(self.waiters.leave(claim))

    def _wake_next(self, claim_id: str | None) -> None:
        if claim_id is not None:
            self._wake_claim(claim_id)

    def close(self) -> None:
        """Close the file and the doorbell; a closed database opens again when it is used."""
        self.bell.close()
        self.waiters.clear()
        self.connection.close()

    def after_fork_in_child(self) -> None:
        """Close the parent's doorbell, and forget its claims."""
        self.bell.close()
        self.waiters.clear()
        self._deferred.clear()
        self._tombstones = {}

    def _add_tombstone(self, claim: Claim) -> None:
        # Only this client sends requests for its claims, and no request is under way for longer
        # than its call. So tombstones are kept in memory, and other clients need not read them.
        now = self._clock.now()
        while self._tombstones and next(iter(self._tombstones.values())) <= now:
            del self._tombstones[next(iter(self._tombstones))]
        self._tombstones[claim.id] = now + max(claim.ttl, TOMBSTONE_SECONDS)

    def _deferred_deadline(self, claim: Claim) -> float:
        return self._clock.now() + min(claim.ttl, DEFERRED_TIMEOUT_SECONDS)


def is_plain(claim: Claim) -> bool:
    """Return whether a grant of this claim has no effect beyond the admission window.

    The admission window must also end within the claim's ttl. See decision 0006.
    """
    is_lasting = claim.ttl >= ADMISSION_WINDOW_SECONDS
    return is_lasting and claim.party is None and not claim.lock_delay and not claim.min_hold
