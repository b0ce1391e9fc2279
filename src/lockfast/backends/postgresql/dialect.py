"""The statements of a door: the name's row is locked, then what stands beside it is read.

The two are separate statements: each sees what was there when it began, and what is read has to
be what is there once the row is ours. Every row that is read has its columns in one order; the
record's comes first, as arrival 0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.postgresql.schema import CLAIM
from lockfast.backends.postgresql.statements import NOW
from lockfast.backends.sql.dialect import Seen
from lockfast.backends.sql.steps import Ask, AskMany

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lockfast.backends.postgresql.schema import Tables
    from lockfast.backends.sql.changes import Change
    from lockfast.backends.sql.steps import Asked, Rows

_CLAIM = ", ".join(CLAIM)
_RECORD = f"0::bigint AS arrived, {_CLAIM}, capacity, last_token"
_PLACE = f"arrived, {_CLAIM}, 0::bigint AS capacity, 0::bigint AS last_token"
_NEW_PLACE = ", ".join(f"{name} {kind}" for name, kind in {"arrived": "bigint", **CLAIM}.items())

# -- reading ---------------------------------------------------------------------------

# Materialized: otherwise the clock would be read before the row was waited for, and a lease
# that ended meanwhile would look alive.
_LOCK = f"""
WITH d AS MATERIALIZED (SELECT * FROM {{door}} WHERE key = $1 FOR UPDATE)
SELECT {NOW}, {_RECORD} FROM d
"""
_INSIDE = f"SELECT {_PLACE} FROM {{place}} WHERE key = $1 AND standing <> 3"
# From the head on: the rows of all who have left the line lie before it until they are swept.
# Inside, nothing is asked of a row but its place, and the others are counted in: the planner,
# which knows nothing of a young table, would expect few who wait, and read and sort them all.
_FRONT = f"""
SELECT * FROM (
    SELECT {_PLACE} FROM {{place}}
    WHERE key = $1 AND arrived >= (SELECT head FROM {{door}} WHERE key = $1)
    ORDER BY arrived
    LIMIT $2 + (SELECT count(*) FROM {{place}} WHERE key = $1 AND standing <> 3)
) AS front WHERE standing = 3 ORDER BY arrived LIMIT $2
"""
_BESIDE = f"{_INSIDE} UNION ALL ({_FRONT})"
_ALL_BESIDE = f"SELECT {_PLACE} FROM {{place}} WHERE key = $1 ORDER BY arrived"
# What only looks does so in one statement, so that all of it is of one moment.
_LOOK = f"""
SELECT {NOW}, seen.* FROM (
    SELECT {_RECORD} FROM {{door}} WHERE key = $1 UNION ALL ({{beside}})
) AS seen ORDER BY arrived
"""
_OWN_AMONG = f"""
SELECT {_PLACE} FROM {{place}}
WHERE key = $1 AND standing = 3 AND id IN (SELECT json_array_elements_text($2::json))
"""
_OWN = f"SELECT {_PLACE} FROM {{place}} WHERE key = $1 AND arrived = $3 AND id = $2"
_FELLOWS = f"""
SELECT {_PLACE} FROM {{place}}
WHERE key = $1 AND standing = 3 AND party IN (SELECT json_array_elements_text($2::json))
"""
_END_OF_LINE = """
SELECT coalesce((SELECT max(arrived) FROM {place} WHERE key = $1), 0),
    coalesce((SELECT crowd FROM {door} WHERE key = $1), 0)
"""
_COUNT_BEFORE = "SELECT count(*) FROM {place} WHERE key = $1 AND standing = 3 AND arrived < $2"
_IN_USE = """
SELECT key FROM {door} WHERE key >= $1 AND substr(key, 1, length($1)) = $1
    AND (crowd > 0 OR id <> '') ORDER BY key
"""
_OF_CLIENTS = """
SELECT key FROM {door} WHERE client IN (SELECT json_array_elements_text($1::json))
UNION SELECT key FROM {place} WHERE client IN (SELECT json_array_elements_text($1::json))
ORDER BY key
"""

# -- writing ---------------------------------------------------------------------------

_MAKE = f"""
INSERT INTO {{door}} (key, {_CLAIM}, capacity, last_token, crowd, head)
VALUES ($1, '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0)
ON CONFLICT (key) DO NOTHING
"""
# One at a time as a rule: for a list of them the server may walk the whole line.
_DROP = "DELETE FROM {place} WHERE key = $1 AND arrived = $2"
_DROP_MANY = "DELETE FROM {place} WHERE key = $1 AND arrived = ANY ($2::bigint[])"
_SAVE = f"""
INSERT INTO {{place}} (key, arrived, {_CLAIM})
SELECT $1, arrived, {_CLAIM} FROM json_to_recordset($2::json) AS r ({_NEW_PLACE})
ON CONFLICT (key, arrived) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in CLAIM)}
"""
_COUNT = "UPDATE {door} SET crowd = crowd + $2, head = $3 WHERE key = $1"
_RECORD_CHANGED = f"""
UPDATE {{door}} SET crowd = crowd + $2, head = $3, capacity = $4, last_token = $5,
    {", ".join(f"{name} = ${number}" for number, name in enumerate(CLAIM, 6))}
WHERE key = $1
"""


class Dialect:
    """Makes the requests; runs none."""

    def __init__(self, tables: Tables) -> None:
        def said(text: str) -> str:
            return text.format(door=tables.door, place=tables.place)

        self._lock, self._beside, self._all_beside = map(said, (_LOCK, _BESIDE, _ALL_BESIDE))
        self._look = _LOOK.format(door=tables.door, beside=self._beside)
        self._look_at_all = _LOOK.format(door=tables.door, beside=self._all_beside)
        self._own, self._own_among, self._fellows = map(said, (_OWN, _OWN_AMONG, _FELLOWS))
        self._end_of_line, self._count_before = map(said, (_END_OF_LINE, _COUNT_BEFORE))
        self._in_use, self._of_clients = map(said, (_IN_USE, _OF_CLIENTS))
        self._make, self._save = map(said, (_MAKE, _SAVE))
        self._drop, self._drop_many = map(said, (_DROP, _DROP_MANY))
        self._count, self._record_changed = map(said, (_COUNT, _RECORD_CHANGED))

    # -- reading -----------------------------------------------------------------------

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Ask]:
        """Ask for the record, all who do not wait, and so many of the line, or all of it."""
        if not locked and front is None:
            return (Ask(self._look_at_all, (key,)),)
        if not locked:
            return (Ask(self._look, (key, front)),)
        lock = Ask(self._lock, (key,))
        if front is None:
            return (lock, Ask(self._all_beside, (key,)))
        return (lock, Ask(self._beside, (key, front)))

    def seen(self, answers: Sequence[Rows]) -> Seen | None:
        """See the protocol."""
        first, *others = answers
        rows = [row[1:] for row in first]
        if not rows or rows[0][0] != 0:
            return None
        record = rows[0]
        for more in others:
            rows.extend(more)
        return Seen(first[0][0], record[-2], record[-1], rows)

    def own(self, key: bytes, claim_id: str, arrived: int) -> Ask:
        """Ask for the row of a claim that waits, where it is known to have arrived."""
        return Ask(self._own, (key, claim_id, arrived))

    def own_among(self, key: bytes, claim_ids: Sequence[str]) -> Ask:
        """Ask for the rows of those of the claims that wait, wherever they stand."""
        return Ask(self._own_among, (key, json.dumps(list(claim_ids))))

    def fellows(self, key: bytes, parties: Collection[str]) -> Ask:
        """Ask for the rows of those who wait and share a hold with one of these."""
        return Ask(self._fellows, (key, json.dumps(sorted(parties))))

    def end_of_line(self, key: bytes) -> Ask:
        """Ask for one row: the last arrival, and the number of rows beside the record."""
        return Ask(self._end_of_line, (key,))

    def count_before(self, key: bytes, arrived: int) -> Ask:
        """Ask for one row: how many wait before this arrival."""
        return Ask(self._count_before, (key, arrived))

    def names_in_use(self, start: bytes) -> Ask:
        """Ask for the keys that begin so and where somebody is, one a row, in byte order."""
        return Ask(self._in_use, (start,))

    def names_of(self, clients: Sequence[str]) -> Ask:
        """Ask for the keys where one of the clients stands, one a row, in byte order."""
        return Ask(self._of_clients, (json.dumps(list(clients)),))

    # -- writing -----------------------------------------------------------------------

    def make(self, key: bytes) -> Asked:
        """Make the record, unless somebody else has just made it."""
        return (AskMany(self._make, [(key,)]),)

    def save(self, change: Change) -> Asked:
        """AskMany what has changed of a name; nothing if nothing has."""
        key, found = change.key, list[AskMany]()
        if len(change.left) == 1:
            found.append(AskMany(self._drop, [(key, change.left[0])]))
        elif change.left:
            arrivals = ",".join(map(str, change.left))
            found.append(AskMany(self._drop_many, [(key, f"{{{arrivals}}}")]))
        if change.rows:
            rows = [dict(zip(("arrived", *CLAIM), row[1:], strict=False)) for row in change.rows]
            found.append(AskMany(self._save, [(key, json.dumps(rows))]))
        head = change.head or 0
        if change.record is not None:
            _, _, *claim, capacity, token = change.record
            values = (key, change.crowd, head, capacity, token, *claim)
            found.append(AskMany(self._record_changed, [values]))
        elif found:
            found.append(AskMany(self._count, [(key, change.crowd, head)]))
        return found
