"""The statements of the embedded file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.sql.dialect import Seen
from holdfast.backends.sql.rows import COLUMNS
from holdfast.backends.sql.steps import Ask, AskMany
from holdfast.core.place import Standing
from holdfast.core.tokens import next_token

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from holdfast.backends.sql.changes import Change
    from holdfast.backends.sql.steps import Asked, Rows
    from holdfast.model import Claim

_COLUMNS = ", ".join(COLUMNS)
_STANDING = "FROM places INDEXED BY standings WHERE key = ? AND arrived > 0 AND standing"
LOAD = f"SELECT {_COLUMNS} FROM places WHERE key = ? ORDER BY arrived"  # noqa: S608
LOAD_FRONT = f"""
SELECT {_COLUMNS} FROM places WHERE key = ? AND arrived = 0
UNION ALL SELECT {_COLUMNS} {_STANDING} < 3
UNION ALL SELECT {_COLUMNS} {_STANDING} > 3
UNION ALL SELECT * FROM (SELECT {_COLUMNS} {_STANDING} = 3 ORDER BY arrived LIMIT ?)
"""  # noqa: S608 - only the names of the columns
LOAD_ONE = f"SELECT {_COLUMNS} FROM places WHERE key = ? AND id = ? AND standing = 3"  # noqa: S608
LOAD_AT = f"SELECT {_COLUMNS} FROM places WHERE key = ? AND arrived = ? AND id = ?"  # noqa: S608
LOAD_PARTIES = f"SELECT {_COLUMNS} {_STANDING} = 3 AND party IN"
END_OF_LINE = f"""
SELECT (SELECT max(arrived) FROM places WHERE key = ?), (SELECT count(*) {_STANDING} >= 0)
"""  # noqa: S608
COUNT_BEFORE = f"SELECT count(*) {_STANDING} = 3 AND arrived < ?"
NEAREST_BEFORE = f"SELECT client {_STANDING} = 3 AND arrived < ? ORDER BY arrived DESC LIMIT 1"
SAVE = f"INSERT OR REPLACE INTO places VALUES ({', '.join('?' * 17)})"  # noqa: S608
DROP = "DELETE FROM places WHERE key = ? AND arrived = ?"

# The uncontended cycle: what Door.arrive and Door.release do when nobody else is at the
# door, each as one statement. A transaction with its own BEGIN, a read and a COMMIT costs
# about twice as much. Whoever is not served by these goes through the door. The marks carry
# no numbers, although some values are given twice: Pythons 3.12.0 to 3.12.3 warn of those.
GRANT_IF_EMPTY = f"""
INSERT INTO places VALUES ({", ".join("?" * 17)})
ON CONFLICT (key, arrived) DO UPDATE SET
    id = excluded.id, client = excluded.client, owner = excluded.owner,
    party = excluded.party, weight = excluded.weight, ttl = excluded.ttl,
    lock_delay = excluded.lock_delay, min_hold = excluded.min_hold,
    standing = excluded.standing, until = excluded.until, since = excluded.since,
    token = max(last_token + 1, excluded.token), bell = excluded.bell,
    capacity = excluded.capacity, last_token = max(last_token + 1, excluded.token)
WHERE places.id = '' AND NOT EXISTS (SELECT 1 FROM places WHERE key = ? AND arrived > 0)
RETURNING token
"""  # noqa: S608 - only the marks of the parameters
RELEASE_IF_ALONE = """
UPDATE places SET id = '', client = '', owner = '', party = NULL, until = 0
WHERE key = ? AND arrived = 0 AND id = ? AND standing = 0 AND until > ?
    AND since + min_hold <= ?
    AND NOT EXISTS (SELECT 1 FROM places WHERE key = ? AND arrived > 0)
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
        return (Ask(LOAD_FRONT, (key, key, key, key, front)),)

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

    def own(self, key: bytes, claim_id: str, arrived: int | None) -> Ask:
        """See the protocol."""
        if arrived is None:
            return Ask(LOAD_ONE, (key, claim_id))
        return Ask(LOAD_AT, (key, arrived, claim_id))

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


def grant_if_empty(key: bytes, claim: Claim, *, now: float) -> Ask:
    """Grant to one who comes to an empty door, with the token as the only row."""
    token = next_token(last=0, clock=now)
    values = (
        key,
        0,
        claim.id,
        claim.client,
        claim.owner,
        claim.party,
        claim.weight,
        claim.ttl,
        claim.lock_delay,
        claim.min_hold,
        0,
        now + claim.ttl,
        now,
        token,
        "",
        claim.capacity,
        token,
        key,
    )
    return Ask(GRANT_IF_EMPTY, values)


def release_if_alone(key: bytes, claim: Claim, *, now: float) -> Ask:
    """End the hold of one who is alone; it changes one row, or none."""
    return Ask(RELEASE_IF_ALONE, (key, claim.id, now, now, key))


def nearest_before(key: bytes, arrived: int) -> Ask:
    """Ask for the client of who waits just before this arrival, if anybody does."""
    return Ask(NEAREST_BEFORE, (key, arrived))


def crowds(keys: Sequence[bytes], *, now: float) -> Ask:
    """Ask of each key that is known how many are there, and for the last token."""
    return Ask(f"{CROWDS} ({_marks(keys)}) GROUP BY key", (now, *keys))


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
