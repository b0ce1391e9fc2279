"""How a door lies in the file: one row per claim, and a record in row 0.

One table, one tree, so that a grant touches one page. Row 0 of a key stays when everybody
has left: it remembers the capacity and the last token. The first to come to an empty door
stands in that row itself, so that an uncontended lock is one row from end to end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.door import Door, Place, Standing
from holdfast.core.naming import name_of
from holdfast.model import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT = 1
APPLICATION_ID = 0x486F6C64  # "Hold"

SCHEMA = (
    "CREATE TABLE meta (boot TEXT NOT NULL, epoch REAL NOT NULL, floor INTEGER NOT NULL)",
    """CREATE TABLE places (
        key BLOB NOT NULL, arrived INTEGER NOT NULL, id TEXT NOT NULL, client TEXT NOT NULL,
        owner TEXT NOT NULL, party TEXT, weight INTEGER NOT NULL, ttl REAL NOT NULL,
        lock_delay REAL NOT NULL, min_hold REAL NOT NULL, standing INTEGER NOT NULL,
        until REAL NOT NULL, since REAL NOT NULL, token INTEGER NOT NULL, bell TEXT NOT NULL,
        capacity INTEGER NOT NULL, last_token INTEGER NOT NULL,
        PRIMARY KEY (key, arrived)
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)

# Of a line of thousands a verb reads those inside and the front. Row 0 is not in the index,
# so that an uncontended lock pays nothing for it. A file of an older version gets it too.
INDEX = """CREATE INDEX IF NOT EXISTS standings ON places (key, standing, arrived)
    WHERE arrived > 0"""

_COLUMNS = (
    "arrived, id, client, owner, party, weight, ttl, lock_delay, min_hold, standing,"
    " until, since, token, bell, capacity, last_token"
)
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
LAST_ARRIVAL = "SELECT max(arrived) FROM places WHERE key = ?"
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

_STANDINGS = tuple(Standing)


def record_in(rows: Iterable[tuple[Any, ...]]) -> tuple[int, int]:
    """Return the capacity and the last token that stand in row 0, which comes first."""
    for row in rows:
        return (row[14], row[15]) if row[0] == 0 else (0, 0)
    return 0, 0


def places_in(key: bytes, rows: Iterable[tuple[Any, ...]], *, capacity: int) -> list[Place]:
    """Return the places that the rows of a key describe."""
    return [_place(key, row, capacity) for row in rows if row[1]]


def row_of(key: bytes, place: Place, door: Door) -> tuple[object, ...]:
    """Return the row of a place."""
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
        door.capacity,
        door.token,
    )


def record_of(key: bytes, door: Door) -> tuple[object, ...]:
    """Return row 0 of a door where nobody stands in it."""
    return (key, 0, "", "", "", None, 0, 0, 0, 0, 0, 0, 0, 0, "", door.capacity, door.token)


def row_of_grant(key: bytes, claim: Claim, *, now: float, token: int) -> tuple[object, ...]:
    """Return the row of a claim that holds alone, with the least token it may get."""
    place = Place(
        claim, arrived=0, standing=Standing.HOLDING, until=now + claim.ttl, since=now, token=token
    )
    return row_of(key, place, Door(capacity=claim.capacity, token=token))


def _place(key: bytes, row: tuple[Any, ...], capacity: int) -> Place:
    arrived, claim_id, client, owner, party, weight, ttl, lock_delay, min_hold, *rest = row
    standing, until, since, token, bell = rest[:5]
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
