"""The embedded SQLite file: the verbs, each one short transaction through the door.

What is decided is in core/door.py, how it lies in the file in rows.py, how the file is
opened in connection.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from holdfast.core.door import Door, Standing
from holdfast.core.naming import name_of, storage_key
from holdfast.core.tokens import next_token
from holdfast.embedded.connection import Connection
from holdfast.embedded.doorbell import Doorbells
from holdfast.embedded.filesystem import kind_of
from holdfast.embedded.rows import (
    DROP,
    GRANT_IF_EMPTY,
    LOAD,
    RELEASE_IF_ALONE,
    SAVE,
    door_from,
    record_of,
    row_of,
    row_of_grant,
)
from holdfast.model import Finding, Grant
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from holdfast.model import Claim, Held, Holder, Inspection, Renewal
    from holdfast.runtime.clock import Clock

T = TypeVar("T")

SWEEP_AFTER = 24 * 3600.0
"""An idle record may go once its last token is this far behind the store's clock."""

SWEEP_EVERY = 64
SWEEP_ROWS = 256


class Database:
    """The verbs on one client's connection; they come one at a time."""

    def __init__(
        self, path: Path, *, namespace: str, clock: Clock, create: bool, synchronous: str
    ) -> None:
        self.bells = Doorbells()
        self.connection = Connection(path, clock=clock, create=create, synchronous=synchronous)
        self._namespace = namespace
        self._synchronous = synchronous
        self._ahead: dict[str, tuple[str, ...]] = {}
        self._rings: list[str] = []
        self._sweep_from = b""
        self._until_sweep = 0
        forking.forget_in_child(self)

    # -- the verbs ---------------------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See Door.arrive; a name whose holder's process is dead is freed on the way."""
        presence = self.connection.open(deadline)
        presence.announce(claim.client)
        while True:
            answer = self._ask(claim, deadline)
            if isinstance(answer, Grant):
                if self._ahead:
                    self.stop_waiting(claim.id)
                return answer
            gone = [one for one in self._ahead.get(claim.id, ()) if presence.is_gone(one)]
            if not gone:
                if not claim.queues:
                    self.stop_waiting(claim.id)
                return answer
            self._forget(gone, deadline)

    def _ask(self, claim: Claim, deadline: float) -> Grant | Held:
        if claim.id in self._ahead:
            waiting = self.connection.patiently(lambda: self._still_waiting(claim), deadline)
            if waiting is not None:
                return waiting
        else:
            grant = self.connection.patiently(lambda: self._grant_if_empty(claim), deadline)
            if grant is not None:
                return grant
        return self._verb(claim.name, deadline, lambda door: self._arrive(door, claim))

    def _grant_if_empty(self, claim: Claim) -> Grant | None:
        key, now = storage_key(self._namespace, claim.name), self.connection.now()
        row = row_of_grant(key, claim, now=now, token=next_token(last=0, clock=now))
        granted = self.connection.execute(GRANT_IF_EMPTY, (*row, key)).fetchall()
        return Grant(claim, granted[0][0], claim.ttl) if granted else None

    def _still_waiting(self, claim: Claim) -> Held | None:
        """Return the answer of a claim whose turn has not come: one read, no transaction."""
        door = self._load(storage_key(self._namespace, claim.name))
        place = door.find(claim.id)
        if place is None or place.standing is not Standing.WAITING:
            return None
        answer = self._arrive(door, claim)
        if isinstance(answer, Grant) or door.changed or door.dropped:
            return None
        return answer

    def _arrive(self, door: Door, claim: Claim) -> Grant | Held:
        bell = self.bells.hang(claim.id) if door.places and claim.queues else ""
        answer = door.arrive(claim, now=self.connection.now(), bell=bell)
        if not isinstance(answer, Grant):
            clients = {place.claim.client for place in door.ahead_of(claim.id)}
            self._ahead[claim.id] = tuple(clients - {claim.client})
        return answer

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> list[Renewal]:
        """See Door.renew; the whole batch in one transaction."""
        self.connection.open(deadline)

        def renewed(claim: Claim) -> Renewal:
            return self._through_door(
                claim.name,
                lambda door: door.renew(claim.id, now=self.connection.now(), ttl=claim.ttl),
            )

        return self._transact(lambda: [renewed(grant.claim) for grant in grants], deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See Door.release."""
        self.connection.open(deadline)
        claim, now = grant.claim, self.connection.now()
        if not tombstone:
            key = storage_key(self._namespace, claim.name)
            released = self.connection.patiently(
                lambda: self.connection.execute(RELEASE_IF_ALONE, (key, claim.id, now, now, key)),
                deadline,
            )
            if released.rowcount:
                self._sweep_now_and_then(deadline)
                return True
        return self._verb(
            claim.name,
            deadline,
            lambda door: door.release(claim.id, now=now, tombstone=tombstone),
        )

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See Door.withdraw."""
        self.connection.open(deadline)
        self.stop_waiting(claim.id)
        self._verb(
            claim.name,
            deadline,
            lambda door: door.withdraw(claim, now=self.connection.now(), tombstone=tombstone),
        )

    def break_(
        self, name: str, *, token: int | None, owner: str | None, deadline: float
    ) -> tuple[Holder, ...]:
        """See Door.break_."""
        self.connection.open(deadline)
        return self._verb(
            name,
            deadline,
            lambda door: door.break_(now=self.connection.now(), token=token, party=owner),
        )

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return what the file says of the name; writes nothing."""
        self.connection.open(deadline)
        return self.connection.patiently(lambda: self._look(name), deadline)

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
            seen = [self._look(name_of(key)) for (key,) in rows.fetchall()]
            return [one for one in seen if one.is_in_use]

        return self.connection.patiently(work, deadline)

    def disown(self, client: str, *, deadline: float) -> None:
        """Leave what the client still holds to its ttl, though the client goes away."""
        self.connection.open(deadline)
        self.connection.patiently(
            lambda: self.connection.execute(
                "UPDATE places SET client = '' WHERE client = ?", (client,)
            ),
            deadline,
        )

    def diagnose(self, *, deadline: float) -> list[Finding]:
        """Return what this file can promise."""
        self.connection.open(deadline)
        findings = [
            Finding(
                "ok",
                "file",
                f"{self.connection.path}, on {kind_of(self.connection.path.parent) or 'a disk'}",
            ),
            Finding(
                "note",
                "reach",
                "excludes processes that open this very file on this machine, and no others",
                "for several machines use a server, such as redis://",
            ),
        ]
        if self._synchronous == "full":
            findings.append(Finding("ok", "durability", "every grant is on disk before it counts"))
        else:
            findings.append(
                Finding(
                    "note",
                    "durability",
                    "a power cut may lose the last grants and their tokens; a killed process not",
                    "add ?synchronous=full to the URL if tokens must survive a power cut",
                )
            )
        rows = self.connection.patiently(
            lambda: self.connection.execute("PRAGMA quick_check(1)").fetchall(), deadline
        )
        if rows == [("ok",)]:
            findings.append(Finding("ok", "integrity", "the file is sound"))
        else:
            findings.append(
                Finding(
                    "error",
                    "integrity",
                    f"the file is damaged: {rows[0][0]}",
                    "stop its users, move it away and let Holdfast make a new one",
                )
            )
        return findings

    # -- waiting -----------------------------------------------------------------------

    def is_anyone_gone(self, claim_id: str) -> bool:
        """Whether one of those in front of a waiting claim is dead; runs no statement."""
        presence = self.connection.presence
        return presence is not None and any(
            presence.is_gone(client) for client in self._ahead.get(claim_id, ())
        )

    def stop_waiting(self, claim_id: str) -> None:
        """Let go of what a waiting claim needed."""
        self._ahead.pop(claim_id, None)
        self.bells.take_down(claim_id)

    def close(self) -> None:
        """Close the file and the bells; a closed database opens again when it is used."""
        self.bells.close()
        self._ahead.clear()
        self.connection.close()

    def after_fork_in_child(self) -> None:
        """Let go of the parent's bells."""
        self.bells.close()
        self.bells = Doorbells()
        self._ahead = {}

    # -- through the door --------------------------------------------------------------

    def _verb(self, name: str, deadline: float, act: Callable[[Door], T]) -> T:
        return self._transact(lambda: self._through_door(name, act), deadline)

    def _transact(self, work: Callable[[], T], deadline: float) -> T:
        self._rings = []
        answer = self.connection.transact(work, deadline)
        # After the commit: whoever is rung must find its place.
        self.bells.ring(self._rings)
        return answer

    def _through_door(self, name: str, act: Callable[[Door], T]) -> T:
        key = storage_key(self._namespace, name)
        door = self._load(key)
        record = (door.token, door.capacity)
        answer = act(door)
        standing = {place.arrived: place for place in door.places}
        left = [(key, place.arrived) for place in door.dropped if place.arrived not in standing]
        self.connection.execute_many(DROP, left)
        changed = {place.arrived: place for place in door.changed}
        rows = [row_of(key, place, door) for place in standing.values() if place.arrived in changed]
        if (door.token, door.capacity) != record or (key, 0) in left:
            first = standing.get(0)
            rows.append(record_of(key, door) if first is None else row_of(key, first, door))
        self.connection.execute_many(SAVE, rows)
        self._rings.extend(place.bell for place in door.woken)
        return answer

    def _load(self, key: bytes) -> Door:
        return door_from(key, self.connection.execute(LOAD, (key,)))

    def _look(self, name: str) -> Inspection:
        door = self._load(storage_key(self._namespace, name))
        now = self.connection.now()
        door.settle(now=now)
        return door.inspect(name, now=now)

    def _forget(self, clients: Sequence[str], deadline: float) -> None:
        def work() -> None:
            marks = ", ".join("?" * len(clients))
            rows = self.connection.execute(
                f"SELECT DISTINCT key FROM places WHERE client IN ({marks})",  # noqa: S608
                clients,
            )
            for (key,) in rows.fetchall():
                self._through_door(
                    name_of(key), lambda door: door.forget(clients, now=self.connection.now())
                )

        self._transact(work, deadline)

    def _sweep_now_and_then(self, deadline: float) -> None:
        # A few rows at a time, from where the last sweep stopped: a lock per order id
        # must not fill the file for ever, and no caller should pay for all of them.
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._until_sweep = SWEEP_EVERY
            self.connection.transact(self._sweep, deadline)

    def _sweep(self) -> None:
        rows = self.connection.execute(
            "SELECT key, last_token, id != '' OR arrived > 0 FROM places WHERE key > ?"
            " ORDER BY key, arrived LIMIT ?",
            (self._sweep_from, SWEEP_ROWS),
        ).fetchall()
        is_all = len(rows) < SWEEP_ROWS
        # The last key's claims may lie beyond the limit, unseen.
        busy = {key for key, _, is_busy in rows if is_busy} | {rows[-1][0] if not is_all else b""}
        limit = (self.connection.now() - SWEEP_AFTER) * 1_000_000
        idle = [(key, token) for key, token, _ in rows if key not in busy and token < limit]
        self.connection.execute_many(
            "DELETE FROM places WHERE key = ?", [(key,) for key, _ in idle]
        )
        if idle:
            # What the next boot must stay above, though nobody remembers the names.
            floor = max(token for _, token in idle)
            self.connection.execute("UPDATE meta SET floor = max(floor, ?)", (floor,))
        self._sweep_from = b"" if is_all else rows[-1][0]
