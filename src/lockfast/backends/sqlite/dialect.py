"""The statements for the SQLite file, and the reaper of idle names."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lockfast.backends.sql.dialect import Dialect, SeenDoor
from lockfast.backends.sql.door_rows import COLUMNS
from lockfast.backends.sql.steps import Query, QueryMany
from lockfast.core.door import EntryState

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.backends.sql.door_rows import Change
    from lockfast.backends.sql.steps import Queries, Rows
    from lockfast.backends.sqlite.connection import SqliteConnection
    from lockfast.model import Claim

Statement: TypeAlias = "tuple[str, tuple[object, ...]]"
"""A statement and its values, which every uncontended acquire or release runs outside of any steps.
"""

_COLUMNS = ", ".join(COLUMNS)
_STANDING = "FROM places INDEXED BY standings WHERE key = ? AND arrived > 0 AND standing"
LOAD = f"SELECT {_COLUMNS} FROM places WHERE key = ? ORDER BY arrived"  # noqa: S608
LOAD_FRONT = f"""
SELECT {_COLUMNS} FROM places WHERE key = ? AND arrived = 0
UNION ALL SELECT {_COLUMNS} {_STANDING} < 3
UNION ALL SELECT {_COLUMNS} {_STANDING} > 3
UNION ALL SELECT * FROM (SELECT {_COLUMNS} {_STANDING} = 3 ORDER BY arrived LIMIT ?)
"""  # noqa: S608 - only column names are inserted
LOAD_AMONG = f"SELECT {_COLUMNS} FROM places WHERE key = ? AND standing = 3 AND id IN (LIST)"  # noqa: S608
LOAD_AT = f"SELECT {_COLUMNS} FROM places WHERE key = ? AND arrived = ? AND id = ?"  # noqa: S608
LOAD_PARTIES = f"SELECT {_COLUMNS} {_STANDING} = 3 AND party IN (LIST)"
END_OF_LINE = f"""
SELECT (SELECT max(arrived) FROM places WHERE key = ?), (SELECT count(*) {_STANDING} >= 0)
"""  # noqa: S608
ADMITTED_AT = f"""
SELECT token, since, until FROM places
WHERE key = ? AND arrived = ? AND id = ? AND standing = {EntryState.ADMITTED:d}
"""  # noqa: S608
COUNT_BEFORE = f"SELECT count(*) {_STANDING} = 3 AND arrived < ?"
NEAREST_BEFORE = f"SELECT client {_STANDING} = 3 AND arrived < ? ORDER BY arrived DESC LIMIT 1"
SAVE = f"INSERT OR REPLACE INTO places VALUES ({', '.join('?' * 17)})"  # noqa: S608
DROP = "DELETE FROM places WHERE key = ? AND arrived = ?"

# An uncontended acquire or release is one statement, which does what Door.arrive or Door.release
# does when nobody else is at the door. A transaction with its own BEGIN, a read and a COMMIT costs
# about twice as much.
#
# All other claims go through the door, even if the only obstacle is that the clock is not ahead of
# the last token. So the token is known without reading it back (RETURNING opens a table of its own
# each time). Each value is given once where possible, and no value is bytes or None, because for
# these types sqlite3 looks for an adapter, which costs more than binding all other values. The
# placeholders have no numbers, because Python 3.12.0 to 3.12.3 warns about those.
GRANT_IF_EMPTY = """
INSERT INTO places VALUES (?, 0, ?, ?, ?, nullif(?, ''), ?, ?, ?, ?, 0, ?, ?, ?, '', ?, ?)
ON CONFLICT (key, arrived) DO UPDATE SET
    id = excluded.id, client = excluded.client, owner = excluded.owner,
    party = excluded.party, weight = excluded.weight, ttl = excluded.ttl,
    lock_delay = excluded.lock_delay, min_hold = excluded.min_hold,
    standing = excluded.standing, until = excluded.until, since = excluded.since,
    token = excluded.token, bell = excluded.bell, capacity = excluded.capacity,
    last_token = excluded.last_token
WHERE places.id = '' AND places.last_token < excluded.token AND NOT EXISTS (
    SELECT 1 FROM places AS other WHERE other.key = excluded.key AND other.arrived > 0)
"""
RELEASE_IF_ALONE = """
UPDATE places SET id = '', client = '', owner = '', party = NULL, until = 0
WHERE key = ? AND arrived = 0 AND id = ? AND standing = 0 AND until > ?
    AND since + min_hold <= ? AND NOT EXISTS (
    SELECT 1 FROM places AS other WHERE other.key = places.key AND other.arrived > 0)
"""

NAMES_IN_USE = f"""
SELECT DISTINCT key FROM places WHERE key >= ? AND id != '' AND standing < {EntryState.GONE:d}
    AND substr(key, 1, ?) = ? ORDER BY key
"""  # noqa: S608
# Entries that are overdue but were not ended yet do not count. The record is row 0, which exists
# even if nobody is there.
CROWDS = f"""
SELECT key, sum(id != '' AND standing < {EntryState.GONE:d}
    AND (standing = {EntryState.WAITING:d} OR until > ?)), max(last_token)
FROM places WHERE key IN"""  # noqa: S608
NAMES_OF = "SELECT DISTINCT key FROM places WHERE client IN (LIST) ORDER BY key"


class SqliteDialect(Dialect):
    """Builds queries; a transaction locks the whole file before it runs the first query."""

    _own, _own_among, _same_owner = LOAD_AT, LOAD_AMONG, LOAD_PARTIES
    _end_of_line, _count_before = END_OF_LINE, COUNT_BEFORE
    _names_in_use, _names_of = NAMES_IN_USE, NAMES_OF

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Query]:
        del locked
        if front is None:
            return (Query(LOAD, (key,)),)
        at = bytearray(key)  # for bytes, sqlite3 would look for an adapter
        return (Query(LOAD_FRONT, (at, at, at, at, front)),)

    def seen(self, answers: Sequence[Rows]) -> SeenDoor:
        """Return the rows that were read of the door; the record, if there is one, is row 0."""
        [rows] = answers
        if rows and rows[0][0] == 0:
            return SeenDoor(self._now(), rows[0][14], rows[0][15], rows)
        return SeenDoor(self._now(), 0, 0, rows)

    def make(self, key: bytes) -> Queries:
        """Return no query, because the first claim at the door writes the record."""
        del key
        return ()

    def save(self, change: Change) -> Queries:
        asked: list[Query | QueryMany] = []
        if change.left:
            asked.append(QueryMany(DROP, [(change.key, arrived) for arrived in change.left]))
        rows = change.rows if change.record is None else [*change.rows, change.record]
        if rows:
            asked.append(QueryMany(SAVE, rows))
        return asked


def grant_if_empty(key: bytes, claim: Claim, *, now: float, token: int) -> Statement:
    """Return the statement that grants a claim at an empty door; a refusal changes no row."""
    return GRANT_IF_EMPTY, (
        bytearray(key),
        claim.id,
        claim.client,
        claim.owner,
        claim.party or "",
        claim.weight,
        claim.ttl,
        claim.lock_delay,
        claim.min_hold,
        now + claim.ttl,
        now,
        token,
        claim.capacity,
        token,
    )


def release_if_alone(key: bytes, claim: Claim, *, now: float) -> Statement:
    """Return the statement that ends the hold of a lone claim; a refusal changes no row."""
    return RELEASE_IF_ALONE, (bytearray(key), claim.id, now, now)


def admitted_at(key: bytes, claim: Claim, arrived: int) -> Query:
    """Return the query for an admitted claim's token and window; no row if not admitted."""
    return Query(ADMITTED_AT, (bytearray(key), arrived, claim.id))


def nearest_before(key: bytes, arrived: int) -> Query:
    """Return the query for the client, if any, that waits just ahead of this arrival."""
    return Query(NEAREST_BEFORE, (key, arrived))


def crowds(keys: Sequence[bytes], *, now: float) -> Query:
    """Return the query for the number of claims and the last token of each known key."""
    marks = ", ".join("?" * len(keys))
    return Query(f"{CROWDS} ({marks}) GROUP BY key", (now, *keys))


# Idle names are removed after a day, so that an application with a lock per order id does not fill
# the file for ever.

REAP_AFTER_SECONDS = 24 * 3600.0
"""An idle record may be removed once its last token is this many seconds behind the store's clock.
"""

REAP_EVERY_VERBS = 64
REAP_ROWS = 256


class SqliteReaper:
    """Reaps idle names a few rows at a time, so that no single caller reaps all of them.

    Each round starts where the last one stopped.
    """

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._from = b""
        self._until_next = 0

    def reap_if_due(self, deadline: float) -> None:
        """Reap at every `REAP_EVERY_VERBS`th call; call it after each release."""
        self._until_next -= 1
        if self._until_next > 0:
            return
        self._until_next = REAP_EVERY_VERBS
        idle = self._connection.patiently(self._look, deadline)
        if idle:
            # Begin the transaction only now, because a signal handler's own call would be refused
            # during a transaction.
            self._connection.transact(lambda: self._delete(idle), deadline)

    def _look(self) -> list[tuple[bytes, int]]:
        rows = self._connection.execute(
            "SELECT key, last_token, id != '' OR arrived > 0 FROM places WHERE key > ?"
            " ORDER BY key, arrived LIMIT ?",
            (self._from, REAP_ROWS),
        ).fetchall()
        is_all = len(rows) < REAP_ROWS
        # Treat the last key as busy, because its claims may be in rows beyond the limit.
        busy = {key for key, _, is_busy in rows if is_busy} | {rows[-1][0] if not is_all else b""}
        limit = (self._connection.now() - REAP_AFTER_SECONDS) * 1_000_000
        self._from = b"" if is_all else rows[-1][0]
        return [(key, token) for key, token, _ in rows if key not in busy and token < limit]

    def _delete(self, idle: list[tuple[bytes, int]]) -> None:
        # After the next boot, tokens must be larger than the tokens of the deleted names.
        floor = max(token for _, token in idle)
        self._connection.execute("UPDATE meta SET floor = max(floor, ?)", (floor,))
        # Keep the names at which a claim has arrived since the read.
        self._connection.execute_many(
            "DELETE FROM places WHERE key = ? AND id = '' AND last_token = ?"
            " AND NOT EXISTS (SELECT 1 FROM places WHERE key = ? AND arrived > 0)",
            [(key, token, key) for key, token in idle],
        )
