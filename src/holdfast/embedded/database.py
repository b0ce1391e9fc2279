"""The embedded SQLite file: doors in rows, one short IMMEDIATE transaction per verb.

Deferred transactions that upgrade fail at once with SQLITE_BUSY_SNAPSHOT whatever the
busy timeout, so every writer begins IMMEDIATE. Time is the boot clock of this machine,
which no administrator can set, shifted once per boot so that it looks like the wall's
and never falls behind a token that was given before.
"""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from holdfast.core.door import Door, Place, Standing
from holdfast.core.naming import name_of, storage_key
from holdfast.embedded.doorbell import Doorbells
from holdfast.embedded.filesystem import kind_of, refuse_network
from holdfast.embedded.presence import Presence
from holdfast.errors import (
    BackendMisbehaved,
    BackendUnavailable,
    ConfigurationError,
    LockError,
    OutcomeUnknown,
)
from holdfast.model import Claim, Finding, Grant
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.model import Held, Holder, Inspection, Renewal
    from holdfast.runtime.clock import Clock

T = TypeVar("T")

FORMAT = 1
APPLICATION_ID = 0x486F6C64  # "Hold"
SWEEP_AFTER = 24 * 3600.0
"""An idle record may go once its last token is this far behind the store's clock."""

_SCHEMA = f"""
CREATE TABLE meta (boot TEXT NOT NULL, epoch REAL NOT NULL);
-- One row per claim in order of arrival; row 0 of a key is its record: the capacity
-- (as weight) and the last token. One table, one tree: a grant touches one page.
CREATE TABLE places (
    key BLOB NOT NULL, arrived INTEGER NOT NULL, id TEXT NOT NULL, client TEXT NOT NULL,
    owner TEXT NOT NULL, party TEXT, weight INTEGER NOT NULL, ttl REAL NOT NULL,
    lock_delay REAL NOT NULL, min_hold REAL NOT NULL, standing INTEGER NOT NULL,
    until REAL NOT NULL, since REAL NOT NULL, token INTEGER NOT NULL, bell TEXT NOT NULL,
    PRIMARY KEY (key, arrived)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT};
"""

_LOAD = (
    "SELECT arrived, id, client, owner, party, weight, ttl, lock_delay, min_hold, standing,"
    " until, since, token, bell FROM places WHERE key = ? ORDER BY arrived"
)
_SAVE = "INSERT OR REPLACE INTO places VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DROP = "DELETE FROM places WHERE key = ? AND arrived = ?"
_STANDINGS = tuple(Standing)


class Database:
    """One client's connection to the file; its calls come one at a time."""

    def __init__(
        self, path: Path, *, namespace: str, clock: Clock, create: bool, synchronous: str
    ) -> None:
        self.path = path
        self.bells = Doorbells()
        self._namespace = namespace
        self._clock = clock
        self._create_directory = create
        self._synchronous = synchronous
        self._connection: sqlite3.Connection | None = None
        self._presence: Presence | None = None
        self._shift = 0.0
        self._ahead: dict[str, tuple[str, ...]] = {}
        self._sweep_from = b""
        self._until_sweep = 0
        forking.forget_in_child(self)

    # -- the verbs ---------------------------------------------------------------------

    def try_acquire(self, claim: Claim, *, deadline: float) -> Grant | Held:
        """See Door.arrive; a name whose holder's process is dead is freed on the way."""
        self._open(deadline)
        presence = self._here()
        presence.announce(claim.client)
        while True:
            answer: Grant | Held | None = self._still_waiting(claim, deadline)
            if answer is None:
                answer = self._verb(claim.name, deadline, lambda door: self._arrive(door, claim))
            if isinstance(answer, Grant):
                self.stop_waiting(claim.id)
                return answer
            gone = [one for one in self._ahead.get(claim.id, ()) if presence.is_gone(one)]
            if not gone:
                if not claim.queues:
                    self.stop_waiting(claim.id)
                return answer
            self._forget(gone, deadline)

    def _still_waiting(self, claim: Claim, deadline: float) -> Held | None:
        """Return the answer of a claim whose turn has not come: one read, no transaction."""
        if claim.id not in self._ahead:
            return None

        def work() -> Held | None:
            door = self._load(storage_key(self._namespace, claim.name))
            place = door.find(claim.id)
            if place is None or place.standing is not Standing.WAITING:
                return None
            answer = self._arrive(door, claim)
            if isinstance(answer, Grant) or door.changed or door.dropped:
                return None
            return answer

        return self._read(work, deadline)

    def _arrive(self, door: Door, claim: Claim) -> Grant | Held:
        bell = self.bells.hang(claim.id) if door.places and claim.queues else ""
        answer = door.arrive(claim, now=self.now(), bell=bell)
        if not isinstance(answer, Grant):
            clients = {place.claim.client for place in door.ahead_of(claim.id)}
            self._ahead[claim.id] = tuple(clients - {claim.client})
        return answer

    def renew(self, grants: Sequence[Grant], *, deadline: float) -> list[Renewal]:
        """See Door.renew; the whole batch in one transaction."""
        self._open(deadline)

        def work() -> list[Renewal]:
            return [
                self._through_door(
                    grant.claim.name,
                    lambda door, grant=grant: door.renew(  # type: ignore[misc]
                        grant.claim.id, now=self.now(), ttl=grant.claim.ttl
                    ),
                )
                for grant in grants
            ]

        return self._transact(work, deadline)

    def release(self, grant: Grant, *, deadline: float, tombstone: bool) -> bool:
        """See Door.release."""
        self._open(deadline)
        return self._verb(
            grant.claim.name,
            deadline,
            lambda door: door.release(grant.claim.id, now=self.now(), tombstone=tombstone),
        )

    def withdraw(self, claim: Claim, *, deadline: float, tombstone: bool) -> None:
        """See Door.withdraw."""
        self._open(deadline)
        self.stop_waiting(claim.id)
        self._verb(
            claim.name,
            deadline,
            lambda door: door.withdraw(claim, now=self.now(), tombstone=tombstone),
        )

    def break_(self, name: str, *, deadline: float) -> tuple[Holder, ...]:
        """See Door.break_."""
        self._open(deadline)
        return self._verb(name, deadline, lambda door: door.break_(now=self.now()))

    def inspect(self, name: str, *, deadline: float) -> Inspection:
        """Return what the file says of the name; writes nothing."""
        self._open(deadline)
        return self._read(lambda: self._look(name), deadline)

    def survey(self, prefix: str, *, deadline: float) -> list[Inspection]:
        """Return all names in use that begin with the prefix, in byte order."""
        self._open(deadline)
        start = storage_key(self._namespace, prefix)

        def work() -> list[Inspection]:
            rows = self._execute(
                "SELECT DISTINCT key FROM places WHERE key >= ?1 AND arrived > 0 AND standing < 4"
                " AND substr(key, 1, ?2) = ?1",
                (start, len(start)),
            )
            return [self._look(name_of(key)) for (key,) in rows.fetchall()]

        return self._read(work, deadline)

    def disown(self, client: str, *, deadline: float) -> None:
        """Leave what the client still holds to its ttl, though the client goes away."""
        self._open(deadline)
        self._transact(
            lambda: self._execute("UPDATE places SET client = '' WHERE client = ?", (client,)),
            deadline,
        )

    def diagnose(self, *, deadline: float) -> list[Finding]:
        """Return what this file can promise."""
        self._open(deadline)
        findings = [
            Finding("ok", "file", f"{self.path}, on {kind_of(self.path.parent) or 'a disk'}"),
            Finding(
                "note",
                "reach",
                "excludes processes that open this very file on this machine, and no others",
                "for several machines use a server: redis://, postgresql://, zookeeper://, …",
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
        rows = self._read(lambda: self._execute("PRAGMA quick_check(1)").fetchall(), deadline)
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

    def is_anyone_gone(self, claim_id: str) -> bool:
        """Whether one of those in front of a waiting claim is dead; runs no statement."""
        presence = self._presence
        return presence is not None and any(
            presence.is_gone(client) for client in self._ahead.get(claim_id, ())
        )

    def stop_waiting(self, claim_id: str) -> None:
        """Let go of what a waiting claim needed."""
        self._ahead.pop(claim_id, None)
        self.bells.take_down(claim_id)

    def close(self) -> None:
        """Close the file and be gone; a closed database opens again when it is used."""
        self.bells.close()
        self._ahead.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._presence is not None:
            self._presence.leave()
            self._presence = None

    def after_fork_in_child(self) -> None:
        """Let go of what the parent uses: nothing may be closed through SQLite here."""
        if self._connection is not None:
            forking.leak(self._connection)
            self._connection = None
        if self._presence is not None:
            self._presence.let_go()
            self._presence = None
        self.bells.close()
        self.bells = Doorbells()
        self._ahead = {}

    # -- transactions ------------------------------------------------------------------

    def now(self) -> float:
        """Return the store's time."""
        return self._clock.now() + self._shift

    def _verb(self, name: str, deadline: float, act: Callable[[Door], T]) -> T:
        return self._transact(lambda: self._through_door(name, act), deadline)

    def _through_door(self, name: str, act: Callable[[Door], T]) -> T:
        key = storage_key(self._namespace, name)
        door = self._load(key)
        token, capacity = door.token, door.capacity
        answer = act(door)
        if door.dropped:
            self._drop(key, door.dropped)
        if door.changed:
            kept = {id(place) for place in door.places}
            rows = [_row(key, place) for place in door.changed if id(place) in kept]
            if (door.token, door.capacity) != (token, capacity):
                rows.append(
                    (key, 0, "", "", "", None, door.capacity, 0, 0, 0, 0, 0, 0, door.token, "")
                )
            self._execute_many(_SAVE, rows)
        if door.woken:
            self._rings.extend(place.bell for place in door.woken)
        return answer

    def _drop(self, key: bytes, places: list[Place]) -> None:
        for place in places:
            self._execute(_DROP, (key, place.arrived))
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._until_sweep = 64
            self._sweep()

    def _load(self, key: bytes) -> Door:
        capacity = token = 0
        places = []
        for row in self._execute(_LOAD, (key,)):
            if row[0] == 0:
                capacity, token = row[5], row[12]
            else:
                places.append(_place(key, row, capacity))
        return Door(capacity=capacity, token=token, places=places)

    def _look(self, name: str) -> Inspection:
        door = self._load(storage_key(self._namespace, name))
        now = self.now()
        door.settle(now=now)
        return door.inspect(name, now=now)

    def _forget(self, clients: Sequence[str], deadline: float) -> None:
        def work() -> None:
            marks = ", ".join("?" * len(clients))
            rows = self._execute(
                f"SELECT DISTINCT key FROM places WHERE client IN ({marks})",  # noqa: S608
                clients,
            )
            for (key,) in rows.fetchall():
                self._through_door(name_of(key), lambda door: door.forget(clients, now=self.now()))

        self._transact(work, deadline)

    def _sweep(self) -> None:
        # A few rows at a time, from where the last sweep stopped: a lock per order id
        # must not fill the file for ever, and no caller should pay for all of them.
        rows = self._execute(
            "SELECT key, token, arrived FROM places WHERE key > ? ORDER BY key, arrived LIMIT 256",
            (self._sweep_from,),
        ).fetchall()
        busy = {key for key, _, arrived in rows if arrived}
        limit = (self.now() - SWEEP_AFTER) * 1_000_000
        idle = [(key,) for key, token, _ in rows if key not in busy and token < limit]
        # The last key's claims may lie beyond the limit, unseen.
        idle = [one for one in idle if len(rows) < 256 or one[0] != rows[-1][0]]  # noqa: PLR2004
        self._execute_many("DELETE FROM places WHERE key = ?", idle)
        self._sweep_from = rows[-1][0] if len(rows) == 256 else b""  # noqa: PLR2004

    def _transact(self, work: Callable[[], T], deadline: float) -> T:
        self._rings: list[str] = []
        self._begin(deadline)
        try:
            answer = work()
        except sqlite3.Error as error:
            self._roll_back()
            raise self._translated(error) from error
        except BaseException:
            self._roll_back()
            raise
        try:
            self._execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise OutcomeUnknown(
                f"{self.path}: the commit failed, and may count or not: {error}"
            ) from error
        if self._rings:
            self.bells.ring(self._rings)
        return answer

    def _begin(self, deadline: float) -> None:
        pause = 0.0001
        while True:
            try:
                self._execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or self._clock.now() >= deadline:
                    raise self._translated(error) from error
                # Transactions here take some 20 µs, so the first waits are short; SQLite's
                # own busy handler would begin with a millisecond.
                time.sleep(pause)
                pause = min(pause * 2, 0.005)
            else:
                return

    def _read(self, work: Callable[[], T], deadline: float) -> T:
        while True:
            try:
                return work()
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or self._clock.now() >= deadline:
                    raise self._translated(error) from error
                time.sleep(0.001)
            except sqlite3.Error as error:
                raise self._translated(error) from error

    def _roll_back(self) -> None:
        if self._connection is not None and self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error:
                # The first error is the one to tell; a broken connection rolls back anyway.
                self._connection.close()
                self._connection = None

    def _execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        connection = self._connection
        if connection is None:
            raise BackendUnavailable(f"{self.path} is not open")
        return connection.execute(statement, values)

    def _execute_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        connection = self._connection
        if connection is None:
            raise BackendUnavailable(f"{self.path} is not open")
        connection.executemany(statement, rows)

    # -- opening -----------------------------------------------------------------------

    def _here(self) -> Presence:
        if self._presence is None:
            raise BackendUnavailable(f"{self.path} is not open")
        return self._presence

    def _open(self, deadline: float) -> None:
        if self._connection is not None:
            return
        self._check_path()
        presence: Presence | None = None
        try:
            self._connection = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
            presence = Presence(self.path)
            self._prepare(presence, deadline)
        except BaseException as error:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
            if presence is not None:
                presence.leave()
            if isinstance(error, sqlite3.Error):
                raise self._translated(error) from error
            if isinstance(error, OSError) and not isinstance(error, LockError):
                raise ConfigurationError(
                    f"{self.path}: {error.strerror or error}; choose a path that this user "
                    "may write (sqlite:///…)"
                ) from error
            raise
        self._presence = presence

    def _check_path(self) -> None:
        if sys.platform != "linux":
            raise ConfigurationError(
                "the embedded database needs Linux (boot clock and file locks); "
                "use a server, or memory:// in tests"
            )
        directory = self.path.parent
        if self._create_directory:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not directory.is_dir():
            raise ConfigurationError(f"{directory} is not a directory; create it first")
        if self.path.is_dir():
            raise ConfigurationError(f"{self.path} is a directory; name a file in it")
        refuse_network(directory)

    def _prepare(self, presence: Presence, deadline: float) -> None:
        is_alone = presence.try_alone()
        if not is_alone:
            presence.share()
        self._read(self._identify, deadline)
        self._read(lambda: self._execute("PRAGMA journal_mode = WAL"), deadline)
        self._execute(f"PRAGMA synchronous = {self._synchronous}")
        self._transact(lambda: self._adopt(is_alone=is_alone), deadline)
        presence.share()

    def _identify(self) -> None:
        application = self._execute("PRAGMA application_id").fetchone()[0]
        version = self._execute("PRAGMA user_version").fetchone()[0]
        tables = self._execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
        if tables and application != APPLICATION_ID:
            raise ConfigurationError(
                f"{self.path} is a database of another program; name a file of Holdfast's own"
            )
        if version > FORMAT:
            raise ConfigurationError(
                f"{self.path} was written by a newer Holdfast (format {version}, this one "
                f"knows {FORMAT}); upgrade this program"
            )

    def _adopt(self, *, is_alone: bool) -> None:
        if not self._execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            for statement in _SCHEMA.split(";\n"):
                self._execute(statement)
        boot, now = _boot_id(), self._clock.now() - _time_namespace_offset()
        row = self._execute("SELECT boot, epoch FROM meta").fetchone()
        if row is not None and row[0] == boot:
            self._shift = row[1] + now - self._clock.now()
            return
        if row is not None and not is_alone:
            raise ConfigurationError(
                f"{self.path} is in use by another kernel (a virtual machine or another host "
                "sees the same disk); give each machine a file of its own, or use a server"
            )
        # A new boot: whoever held or waited died with the old one. Tokens live on.
        last = self._execute("SELECT max(token) FROM places").fetchone()[0] or 0
        self._execute("DELETE FROM places WHERE arrived > 0")
        epoch = max(time.time(), last / 1_000_000 + 1) - now
        self._execute("DELETE FROM meta")
        self._execute("INSERT INTO meta VALUES (?, ?)", (boot, epoch))
        self._shift = epoch + now - self._clock.now()

    def _translated(self, error: sqlite3.Error) -> LockError:
        kind = getattr(error, "sqlite_errorname", "")
        if _is_busy(error):
            return BackendUnavailable(f"{self.path} stayed locked by others: {error}")
        if kind.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
            return ConfigurationError(
                f"{self.path}: {error}; the file and its directory must be writable"
            )
        if kind.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
            return ConfigurationError(
                f"{self.path}: {error}; move the file away, and Holdfast makes a new one"
            )
        if kind.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_NOMEM")):
            return BackendUnavailable(f"{self.path}: {error}")
        return BackendMisbehaved(f"{self.path}: {error}")


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _row(key: bytes, place: Place) -> tuple[object, ...]:
    claim = place.claim
    return (
        key,
        place.arrived,
        claim.id,
        claim.client,
        claim.owner,
        claim.party,
        claim.weight,
        claim.ttl,
        claim.lock_delay,
        claim.min_hold,
        int(place.standing),
        place.until,
        place.since,
        place.token,
        place.bell,
    )


def _place(key: bytes, row: tuple, capacity: int) -> Place:  # type: ignore[type-arg]
    arrived, claim_id, client, owner, party, weight, ttl, lock_delay, min_hold, *rest = row
    standing, until, since, token, bell = rest
    claim = Claim(
        claim_id,
        name_of(key),
        client,
        owner,
        weight,
        capacity,
        ttl,
        party,
        lock_delay,
        min_hold,
    )
    return Place(
        claim,
        arrived=arrived,
        standing=_STANDINGS[standing],
        until=until,
        since=since,
        token=token,
        bell=bell,
    )


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _time_namespace_offset() -> float:
    """Return how far this process's boot clock was set ahead of the machine's own."""
    try:
        lines = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:
        return 0.0
    for line in lines:
        clock, seconds, nanoseconds = line.split()
        if clock == "boottime":
            return int(seconds) + int(nanoseconds) / 1e9
    return 0.0
