"""The statements of the embedded file."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from lockfast.backends.sql.dialect import Seen
from lockfast.backends.sql.rows import COLUMNS
from lockfast.backends.sql.steps import Ask, AskMany
from lockfast.core.place import Standing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lockfast.backends.sql.changes import Change
    from lockfast.backends.sql.steps import Asked, Rows
    from lockfast.model import Claim

Statement: TypeAlias = "tuple[str, tuple[object, ...]]"
"""One that no step asks for: it is run by itself, at every uncontended acquire and release."""

_COLUMNS = ", ".join(COLUMNS)
_STANDING = "FROM places INDEXED BY standings WHERE key = ? AND arrived > 0 AND standing"
LOAD = f"SELECT {_COLUMNS} FROM places WHERE key = ? ORDER BY arrived"  # noqa: S608
LOAD_FRONT = f"""
SELECT {_COLUMNS} FROM places WHERE key = ? AND arrived = 0
UNION ALL SELECT {_COLUMNS} {_STANDING} < 3
UNION ALL SELECT {_COLUMNS} {_STANDING} > 3
UNION ALL SELECT * FROM (SELECT {_COLUMNS} {_STANDING} = 3 ORDER BY arrived LIMIT ?)
"""  # noqa: S608 - only the names of the columns
LOAD_AMONG = f"SELECT {_COLUMNS} FROM places WHERE key = ? AND standing = 3 AND id IN"  # noqa: S608
LOAD_AT = f"SELECT {_COLUMNS} FROM places WHERE key = ? AND arrived = ? AND id = ?"  # noqa: S608
LOAD_PARTIES = f"SELECT {_COLUMNS} {_STANDING} = 3 AND party IN"
END_OF_LINE = f"""
SELECT (SELECT max(arrived) FROM places WHERE key = ?), (SELECT count(*) {_STANDING} >= 0)
"""  # noqa: S608
ADMITTED_AT = f"""
SELECT token, since, until FROM places
WHERE key = ? AND arrived = ? AND id = ? AND standing = {Standing.ADMITTED:d}
"""  # noqa: S608
COUNT_BEFORE = f"SELECT count(*) {_STANDING} = 3 AND arrived < ?"
NEAREST_BEFORE = f"SELECT client {_STANDING} = 3 AND arrived < ? ORDER BY arrived DESC LIMIT 1"
SAVE = f"INSERT OR REPLACE INTO places VALUES ({', '.join('?' * 17)})"  # noqa: S608
DROP = "DELETE FROM places WHERE key = ? AND arrived = ?"

# The uncontended cycle: what Door.arrive and Door.release do when nobody else is at the
# door, each as one statement. A transaction with its own BEGIN, a read and a COMMIT costs
# about twice as much. Whoever is not served by these goes through the door: also one whose
# clock is not ahead of the last token, so that the token is known without asking for it
# (RETURNING opens a table of its own each time). Each value is given once where it can be,
# and none is bytes or None: for those sqlite3 looks for an adapter, which costs more than
# to bind all others. The marks carry no numbers: Pythons 3.12.0 to 3.12.3 warn of those.
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
SELECT DISTINCT key FROM places WHERE key >= ? AND id != '' AND standing < {Standing.GONE:d}
    AND substr(key, 1, ?) = ? ORDER BY key
"""  # noqa: S608
# What is overdue and was not seen to yet is nobody; the record is row 0, also when nobody is there.
CROWDS = f"""
SELECT key, sum(id != '' AND standing < {Standing.GONE:d}
    AND (standing = {Standing.WAITING:d} OR until > ?)), max(last_token)
FROM places WHERE key IN"""  # noqa: S608
NAMES_OF = "SELECT DISTINCT key FROM places WHERE client IN"


class SqliteDialect:
    """See the protocol. The transaction locks the whole file before any of these is run."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Ask]:
        """See the protocol."""
        del locked
        if front is None:
            return (Ask(LOAD, (key,)),)
        at = bytearray(key)  # no bytes, as below
        return (Ask(LOAD_FRONT, (at, at, at, at, front)),)

    def seen(self, answers: Sequence[Rows]) -> Seen:
        """See the protocol; the record, if there is one, is row 0."""
        [rows] = answers
        if rows and rows[0][0] == 0:
            return Seen(self._now(), rows[0][14], rows[0][15], rows)
        return Seen(self._now(), 0, 0, rows)

    def make(self, key: bytes) -> Asked:
        """Ask nothing: who comes first writes it."""
        del key
        return ()

    def own(self, key: bytes, claim_id: str, arrived: int) -> Ask:
        """See the protocol."""
        return Ask(LOAD_AT, (key, arrived, claim_id))

    def own_among(self, key: bytes, claim_ids: Sequence[str]) -> Ask:
        """See the protocol."""
        return Ask(f"{LOAD_AMONG} ({_marks(claim_ids)})", (key, *claim_ids))

    def fellows(self, key: bytes, parties: Collection[str]) -> Ask:
        """See the protocol."""
        return Ask(f"{LOAD_PARTIES} ({_marks(parties)})", (key, *parties))

    def end_of_line(self, key: bytes) -> Ask:
        """See the protocol."""
        return Ask(END_OF_LINE, (key, key))

    def count_before(self, key: bytes, arrived: int) -> Ask:
        """See the protocol."""
        return Ask(COUNT_BEFORE, (key, arrived))

    def save(self, change: Change) -> Asked:
        """See the protocol."""
        asked: list[Ask | AskMany] = []
        if change.left:
            asked.append(AskMany(DROP, [(change.key, arrived) for arrived in change.left]))
        rows = change.rows if change.record is None else [*change.rows, change.record]
        if rows:
            asked.append(AskMany(SAVE, rows))
        return asked

    def names_in_use(self, start: bytes) -> Ask:
        """See the protocol."""
        return Ask(NAMES_IN_USE, (start, len(start), start))

    def names_of(self, clients: Sequence[str]) -> Ask:
        """See the protocol."""
        return Ask(f"{NAMES_OF} ({_marks(clients)}) ORDER BY key", clients)


def grant_if_empty(key: bytes, claim: Claim, *, now: float, token: int) -> Statement:
    """Grant to one who comes to an empty door; it changes one row, or none."""
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
    """End the hold of one who is alone; it changes one row, or none."""
    return RELEASE_IF_ALONE, (bytearray(key), claim.id, now, now)


def admitted_at(key: bytes, claim: Claim, arrived: int) -> Ask:
    """Ask for token, beginning and end of the window, if the claim was let in where it stands."""
    return Ask(ADMITTED_AT, (bytearray(key), arrived, claim.id))


def nearest_before(key: bytes, arrived: int) -> Ask:
    """Ask for the client of who waits just before this arrival, if anybody does."""
    return Ask(NEAREST_BEFORE, (key, arrived))


def crowds(keys: Sequence[bytes], *, now: float) -> Ask:
    """Ask of each key that is known how many are there, and for the last token."""
    return Ask(f"{CROWDS} ({_marks(keys)}) GROUP BY key", (now, *keys))


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
