"""The embedded SQLite file: the verbs, each one short transaction through the door.

What is decided is in core/door.py, how a door is read and written in doors.py, how the file is
opened in connection.py.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.backends.sqlite import findings
from holdfast.backends.sqlite.connection import Connection
from holdfast.backends.sqlite.doorbell import Doorbell
from holdfast.backends.sqlite.doors import Doors
from holdfast.backends.sqlite.rows import (
    GRANT_IF_EMPTY,
    NEAREST_BEFORE,
    RELEASE_IF_ALONE,
    row_of_grant,
)
from holdfast.backends.sqlite.sweeping import Broom
from holdfast.backends.sqlite.waiters import Waiters
from holdfast.core.door import TOMBSTONE, Standing
from holdfast.core.naming import name_of, storage_key
from holdfast.core.tokens import next_token
from holdfast.model import Grant, Held
from holdfast.runtime import forking
from holdfast.runtime.afterwards import Afterwards

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holdfast.core.door import Door, Place
    from holdfast.model import Claim, Finding, Holder, Inspection, Renewal
    from holdfast.runtime.clock import Clock

PATIENCE = 2.0
"""How long what was put off is tried, in seconds."""

MAY_BE_FORGOTTEN = (Standing.HOLDING, Standing.ADMITTED, Standing.WAITING)


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
        self.bell = Doorbell()
        self.waiters = Waiters()
        self.connection = Connection(path, clock=clock, create=create, synchronous=synchronous)
        self._clock = clock
        self._namespace = namespace
        self._synchronous = synchronous
        self._tell = tell
        self._broom = Broom(self.connection)
        self._afterwards = Afterwards()
        self._doors = Doors(
            self.connection,
            self.bell,
            self.waiters,
            namespace=namespace,
            afterwards=self._afterwards,
        )
        self._over: dict[str, float] = {}
        forking.forget_in_child(self)

    # -- the verbs ---------------------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See Door.arrive; a name whose holder's process is dead is freed on the way."""
        presence = self.connection.open(deadline, client=claim.client)
        if self._over and claim.id in self._over:
            return Held(())
        while True:
            answer = self._ask(claim, deadline)
            if isinstance(answer, Grant):
                if self.bell.is_hung or self.waiters.are_any:
                    self.stop_waiting(claim)
                return answer
            gone = [one for one in self.waiters.watched_by(claim) if presence.is_gone(one)]
            if gone:
                self._doors.forget(gone, deadline)
            elif answer.place is None:
                self.stop_waiting(claim)
                return answer
            else:
                return answer if self.waiters.is_first(claim) else replace(answer, retry_in=None)

    def _ask(self, claim: Claim, deadline: float) -> Grant | Held:
        if self.waiters.arrival_of(claim) is not None:
            waiting = self.connection.patiently(lambda: self._still_waiting(claim), deadline)
            if waiting is not None:
                return waiting
        elif not self.waiters.are_at(claim.name):
            grant = self._grant_if_empty(claim, deadline)
            if grant is not None:
                return grant
        return self._doors.verb(
            claim.name, deadline, lambda door: self._arrive(door, claim), claim=claim
        )

    def _grant_if_empty(self, claim: Claim, deadline: float) -> Grant | None:
        key, now = storage_key(self._namespace, claim.name), self.connection.now()
        row = row_of_grant(key, claim, now=now, token=next_token(last=0, clock=now))
        granted, _ = self.connection.write(GRANT_IF_EMPTY, (*row, key), deadline)
        return Grant(claim, granted[0][0], claim.ttl) if granted else None

    def _still_waiting(self, claim: Claim) -> Held | None:
        """Return the answer of a claim whose turn has not come: a look, no transaction."""
        door = self._doors.load(claim.name, claim)
        place = door.find(claim.id)
        if place is None or place.standing is not Standing.WAITING:
            return None
        answer = self._arrive(door, claim)
        if isinstance(answer, Grant) or door.changed or door.dropped or door.fell_short:
            return None
        return answer

    def _arrive(self, door: Door, claim: Claim) -> Grant | Held:
        bell = self.bell.hang(claim.id) if door.places and claim.queues else ""
        answer = door.arrive(claim, now=self.connection.now(), bell=bell)
        if isinstance(answer, Grant):
            return answer
        place = door.find(claim.id)
        if place is not None and answer.place is not None:
            self._tell_next(self.waiters.join(claim, arrived=place.arrived))
        if place is None or self.waiters.is_first(claim):
            self.waiters.watch(claim, self._ahead_of(door, claim, place))
        return answer

    def _ahead_of(self, door: Door, claim: Claim, place: Place | None) -> set[str]:
        """Return the clients of those inside, of the front, and of the nearest in the line."""
        clients = {one.claim.client for one in door.places if one.standing in MAY_BE_FORGOTTEN}
        if place is not None:
            key = storage_key(self._namespace, claim.name)
            nearest = self.connection.execute(NEAREST_BEFORE, (key, place.arrived)).fetchone()
            clients.update(nearest or ())
        return clients - {claim.client}

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> list[Renewal]:
        """See Door.renew; the whole batch in one transaction."""
        self.connection.open(deadline)

        def renewed(claim: Claim, rings: list[str]) -> Renewal:
            return self._doors.through(
                claim.name,
                lambda door: door.renew(claim.id, now=self.connection.now(), ttl=claim.ttl),
                rings,
            )

        return self._doors.transact(
            lambda rings: [renewed(one.claim, rings) for one in grants], deadline
        )

    def hand_over(self, claim: Claim, *, deadline: float) -> Renewal:
        """See Door.hand_over."""
        # Of a client that is not seen here, whoever looks next would think that it is dead.
        self.connection.open(deadline, client=claim.client)
        now = self.connection.now()
        return self._doors.verb(claim.name, deadline, lambda door: door.hand_over(claim, now=now))

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
        values = (key, claim.id, now, now, key)
        _, released = self.connection.write(RELEASE_IF_ALONE, values, deadline)
        if released:
            self._broom.sweep_now_and_then(deadline)
            self._afterwards.do()
            return True
        return self._doors.verb(claim.name, deadline, lambda door: door.release(claim.id, now=now))

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
        self._doors.verb(
            claim.name,
            deadline,
            lambda door: door.withdraw(claim, now=self.connection.now()),
            claim=claim,
        )
        self.stop_waiting(claim)

    def break_(
        self, name: str, *, token: int | None, owner: str | None, deadline: float
    ) -> tuple[Holder, ...]:
        """See Door.break_."""
        self.connection.open(deadline)
        return self._doors.verb(
            name,
            deadline,
            lambda door: door.break_(now=self.connection.now(), token=token, party=owner),
        )

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return what the file says of the name; writes nothing."""
        self.connection.open(deadline)
        return self.connection.patiently(lambda: self._doors.look(name), deadline)

    def survey(self, prefix: str, *, deadline: float) -> list[Inspection]:
        """Return all names in use that begin with the prefix, in byte order."""
        self.connection.open(deadline)
        start = storage_key(self._namespace, prefix)

        def work() -> list[Inspection]:
            rows = self.connection.execute(
                "SELECT DISTINCT key FROM places WHERE key >= ? AND id != '' AND standing < ?"
                " AND substr(key, 1, ?) = ? ORDER BY key",
                (start, int(Standing.GONE), len(start), start),
            )
            seen = [self._doors.look(name_of(key)) for (key,) in rows.fetchall()]
            return [one for one in seen if one.is_in_use]

        return self.connection.patiently(work, deadline)

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
