"""The embedded SQLite file: the verbs, each one short transaction through the door.

What is decided is in core/door.py, what a verb reads and writes in backends/sql, by which
statements in dialect.py, how the file is opened in connection.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.backends.sql.steps import alone
from lockfast.backends.sql.verbs import Decided, Verbs
from lockfast.backends.sqlite import findings
from lockfast.backends.sqlite.connection import Connection
from lockfast.backends.sqlite.crowded_names import CrowdedNames
from lockfast.backends.sqlite.dialect import (
    SqliteDialect,
    admitted_at,
    crowds,
    grant_if_empty,
    nearest_before,
    release_if_alone,
)
from lockfast.backends.sqlite.doorbell import Doorbell
from lockfast.backends.sqlite.driver import Driver
from lockfast.backends.sqlite.sweeping import Broom
from lockfast.backends.sqlite.waiters import Waiters
from lockfast.core.door import TOMBSTONE, WINDOW
from lockfast.core.naming import storage_key
from lockfast.core.place import ADMITTED, HOLDING, WAITING
from lockfast.core.tokens import next_token
from lockfast.model import Crowd, Grant, Held, Window
from lockfast.runtime import forking
from lockfast.runtime.afterwards import Afterwards

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lockfast.backends.sql.passing import Arrived
    from lockfast.backends.sql.steps import Steps
    from lockfast.backends.sqlite.presence import Presence
    from lockfast.model import Claim, Finding, Holder, Inspection, Renewal
    from lockfast.runtime.clock import Clock

PATIENCE = 2.0
"""How long what was put off is tried, in seconds."""

NOBODY = Crowd(0, None)
ENOUGH = 0.5
"""One whose window is older than this part of it asks for a full ttl: what is left might not do
for the renewal that must come first."""

MAY_BE_FORGOTTEN = (HOLDING, ADMITTED, WAITING)


class Database:
    """The verbs on one client's connection; they come one at a time.

    `tell` is called with a claim of ours that should ask again, from any thread.
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
        self.connection: Connection = Connection(
            path, clock=clock, create=create, synchronous=synchronous
        )
        self._clock = clock
        self._namespace = namespace
        self._synchronous = synchronous
        self._tell = tell
        self._broom = Broom(self.connection)
        self._afterwards = Afterwards()
        self._verbs = Verbs(SqliteDialect(self.connection.now), namespace=namespace)
        self._driver = Driver(self.connection, self.bell, self._afterwards)
        self._over: dict[str, float] = {}
        self._crowded = CrowdedNames()
        forking.forget_in_child(self)

    # -- the verbs ---------------------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float, was_rung: bool = False) -> Grant | Held:
        """See Door.arrive; a name whose holder's process is dead is freed on the way.

        Of a claim that was rung for it is looked first whether it was let in.
        """
        presence = self.connection.open(deadline, client=claim.client)
        if self._over and claim.id in self._over:
            return Held(())
        waiters, name = self.waiters, claim.name
        if not (name in self._crowded or (waiters.are_any and waiters.are_at(name))):
            grant = self._grant_if_empty(claim, deadline)
            if grant is not None:
                if self.bell.is_hung:  # for this claim too, if an earlier question of it failed
                    self.stop_waiting(claim)
                return grant
            self._crowded.add(name)
        elif was_rung:
            grant = self._let_in(claim, deadline)
            if grant is not None:
                self.stop_waiting(claim)
                return grant
        return self._stand(claim, presence, deadline)

    def _stand(self, claim: Claim, presence: Presence, deadline: float) -> Grant | Held:
        """Return the answer that the door gives, once those who are dead have left it."""
        is_new = claim.queues and self.waiters.arrival_of(claim) is None
        while True:
            answer = self._ask(claim, deadline)
            if isinstance(answer, Grant):
                self.stop_waiting(claim)
                return answer
            # Who comes behind others leaves it to them at first, and to its own glances.
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
        yield from self._note(claim, decided)
        return Decided(decided.answer, decided.door.woken)

    def _still_waiting(self, claim: Claim, arrived: int) -> Steps[Held | None]:
        """Return the answer to a claim whose turn has not come: a look, no transaction."""
        decided = yield from self._verbs.still_waiting(claim, arrived=arrived)
        if decided is None or isinstance(decided.answer, Grant):
            return None
        yield from self._note(claim, decided)
        return decided.answer

    def _let_in(self, claim: Claim, deadline: float) -> Grant | None:
        """Return what a claim has by another's release, None if it had better ask.

        Whoever released has written that it holds, for a window, and nobody else ends it
        before. So it need not be written once more: the first renewal makes it a full ttl.
        """
        arrived = self.waiters.arrival_of(claim)
        if arrived is None or not is_plain(claim):
            return None
        ask = admitted_at(storage_key(self._namespace, claim.name), claim, arrived)
        for token, since, until in self._driver.look(lambda: alone(ask), deadline):
            if self.connection.now() - since <= (until - since) * ENOUGH:
                window = Window(self.connection.local(since), until - since)
                return Grant(claim, token, claim.ttl, window)
        return None

    def _note(self, claim: Claim, decided: Arrived) -> Steps[None]:
        """Remember where a claim stands that was not let in, and whom it has to look after.

        Those are the clients of all inside, of the front, and of the nearest in the line.
        """
        answer, door = decided
        if isinstance(answer, Grant):
            return
        place = door.find(claim.id)
        if place is not None and answer.place is not None:
            self._tell_next(self.waiters.join(claim, arrived=place.arrived))
        if place is not None and not self.waiters.is_first(claim):
            return
        clients = {one.claim.client for one in door.places if one.standing in MAY_BE_FORGOTTEN}
        if place is not None and not door.is_whole:
            key = storage_key(self._namespace, claim.name)
            [nearest] = yield [nearest_before(key, place.arrived)]
            clients.update(client for (client,) in nearest)
        self.waiters.watch(claim, clients - {claim.client})

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> list[Renewal]:
        """See Door.renew; the whole batch in one transaction."""
        self.connection.open(deadline)
        return self._driver.transact(self._verbs.renew([one.claim for one in grants]), deadline)

    def hand_over(self, claim: Claim, *, deadline: float) -> Renewal:
        """See Door.hand_over."""
        # Of a client that is not seen here, whoever looks next would think that it is dead.
        self.connection.open(deadline, client=claim.client)
        return self._driver.transact(self._verbs.hand_over(claim), deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See Door.release."""
        claim = grant.claim
        if tombstone:
            self._bury(claim)
        if self.connection.is_inside:
            self._afterwards.add(lambda: self._release(claim, self._patience(claim)))
            return True
        return self._release(claim, deadline)

    def _release(self, claim: Claim, deadline: float) -> bool:
        self.connection.open(deadline)
        now = self.connection.now()
        key = storage_key(self._namespace, claim.name)
        statement, values = release_if_alone(key, claim, now=now)
        is_crowded = claim.name in self._crowded
        if not is_crowded and self.connection.write(statement, values, deadline):
            self._broom.sweep_now_and_then(deadline)
            self._afterwards.do()
            return True
        self._crowded.add(claim.name)
        return self._driver.transact(self._release_to_next(claim, now), deadline)

    def _release_to_next(self, claim: Claim, now: float) -> Steps[Decided[bool]]:
        decided = yield from self._verbs.release(claim, at=now)
        if not decided.woken:
            self._crowded.discard(claim.name)
        return decided

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See Door.withdraw."""
        if tombstone:
            self._bury(claim)
        if self.connection.is_inside:
            self._afterwards.add(lambda: self._withdraw(claim, self._patience(claim)))
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
        """See Door.break_."""
        self.connection.open(deadline)
        return self._driver.transact(self._verbs.break_(name, token=token, party=owner), deadline)

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return what the file says of the name; writes nothing."""
        self.connection.open(deadline)
        return self._driver.look(lambda: self._verbs.inspect(name), deadline)

    def crowds(self, names: Sequence[str], *, deadline: float) -> list[Crowd]:
        """Return how many are at each of the names; writes nothing."""
        self.connection.open(deadline)
        return self._driver.look(lambda: self._crowds(names), deadline)

    def _crowds(self, names: Sequence[str]) -> Steps[list[Crowd]]:
        keys = [storage_key(self._namespace, name) for name in names]
        [rows] = yield [crowds(keys, now=self.connection.now())]
        known = {key: Crowd(number, token or None) for key, number, token in rows}
        return [known.get(key, NOBODY) for key in keys]

    def survey(self, prefix: str, *, deadline: float) -> list[Inspection]:
        """Return all names in use that begin with the prefix, in byte order."""
        self.connection.open(deadline)
        return self._driver.look(lambda: self._verbs.survey(prefix), deadline)

    def disown(self, client: str, *, deadline: float) -> None:
        """Leave what the client still holds to its ttl, though the client goes away."""
        self.connection.open(deadline)
        statement = "UPDATE places SET client = '' WHERE client = ?"
        self.connection.write(statement, (client,), deadline)

    def diagnose(self, *, deadline: float) -> list[Finding]:
        """Return what this file can promise."""
        self.connection.open(deadline)
        return findings.findings(self.connection, synchronous=self._synchronous, deadline=deadline)

    # -- waiting -----------------------------------------------------------------------

    def is_anyone_gone(self, claim: Claim) -> bool:
        """Whether one of those in front of a waiting claim is dead; runs no statement."""
        is_gone = self.connection.presence.is_gone
        return any(is_gone(client) for client in self.waiters.watched_by(claim))

    def stop_waiting(self, claim: Claim) -> None:
        """Let go of what a waiting claim needed; the next of ours at this name looks."""
        self.bell.take_down(claim.id)
        self._tell_next(self.waiters.leave(claim))

    def _tell_next(self, claim_id: str | None) -> None:
        if claim_id is not None:
            self._tell(claim_id)

    def close(self) -> None:
        """Close the file and the bell; a closed database opens again when it is used."""
        self.bell.close()
        self.waiters.clear()
        self.connection.close()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's bell."""
        self.bell.close()
        self.waiters.clear()
        self._afterwards.clear()
        self._over = {}

    def _bury(self, claim: Claim) -> None:
        # Only this client sends requests for its claims, and none of them is under way for
        # longer than its call. So what is over need not stand in the file for all to read.
        now = self._clock.now()
        while self._over and next(iter(self._over.values())) <= now:
            del self._over[next(iter(self._over))]
        self._over[claim.id] = now + max(claim.ttl, TOMBSTONE)

    def _patience(self, claim: Claim) -> float:
        return self._clock.now() + min(claim.ttl, PATIENCE)


def is_plain(claim: Claim) -> bool:
    """Whether nothing hangs on its grant but the window, which ends within its ttl.

    See decision 0006.
    """
    is_lasting = claim.ttl >= WINDOW
    return is_lasting and claim.party is None and not claim.lock_delay and not claim.min_hold
