"""The statements of a door, which lock the name's row and then read its other rows.

Locking and reading are separate statements, because each statement sees what was committed when it
began, and the rows have to be read as they are once the name's row is locked. All rows have their
columns in the same order; the record comes first, as arrival 0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.postgresql.schema import CLAIM_COLUMNS
from lockfast.backends.postgresql.statements import NOW
from lockfast.backends.sql.dialect import Dialect
from lockfast.backends.sql.steps import Query, QueryMany

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.postgresql.schema import PostgresqlTables
    from lockfast.backends.sql.door_rows import Change
    from lockfast.backends.sql.steps import Queries

_CLAIM = ", ".join(CLAIM_COLUMNS)
_RECORD = f"0::bigint AS arrived, {_CLAIM}, capacity, last_token"
_PLACE = f"arrived, {_CLAIM}, 0::bigint AS capacity, 0::bigint AS last_token"
_NEW_PLACE = ", ".join(
    f"{name} {kind}" for name, kind in {"arrived": "bigint", **CLAIM_COLUMNS}.items()
)

# -- reading ---------------------------------------------------------------------------

# Materialized, because otherwise the clock would be read before the wait for the row, and a lease
# that ended meanwhile would seem to be alive.
_LOCK = f"""
WITH d AS MATERIALIZED (SELECT * FROM {{door}} WHERE key = $1 FOR UPDATE)
SELECT {NOW}, {_RECORD} FROM d
"""
_INSIDE = f"SELECT {_PLACE} FROM {{place}} WHERE key = $1 AND standing <> 3"
# The read starts at the head, because the rows of claims that have left the line lie before the
# head until they are vacuumed. The inner query selects by arrival only, and its limit includes the
# entries that do not wait. If it selected by `standing = 3`, the planner, which has no statistics
# for a young table, would expect few waiting entries, and would read and sort them all.
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
# Reads without a lock use one statement, so that all rows are from one moment.
_LOOK, _LOOK_AT_ALL = (
    f"""
SELECT {NOW}, seen.* FROM (
    SELECT {_RECORD} FROM {{door}} WHERE key = $1 UNION ALL ({beside})
) AS seen ORDER BY arrived
"""
    for beside in (_BESIDE, _ALL_BESIDE)
)
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
# A single arrival, which is the usual case, has its own statement, because for a list of arrivals
# the server may scan the whole line.
_DROP = "DELETE FROM {place} WHERE key = $1 AND arrived = $2"
_DROP_MANY = "DELETE FROM {place} WHERE key = $1 AND arrived = ANY ($2::bigint[])"
_SAVE = f"""
INSERT INTO {{place}} (key, arrived, {_CLAIM})
SELECT $1, arrived, {_CLAIM} FROM json_to_recordset($2::json) AS r ({_NEW_PLACE})
ON CONFLICT (key, arrived) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in CLAIM_COLUMNS)}
"""
_COUNT = "UPDATE {door} SET crowd = crowd + $2, head = $3 WHERE key = $1"
_RECORD_CHANGED = f"""
UPDATE {{door}} SET crowd = crowd + $2, head = $3, capacity = $4, last_token = $5,
    {", ".join(f"{name} = ${number}" for number, name in enumerate(CLAIM_COLUMNS, 6))}
WHERE key = $1
"""


class PostgresqlDialect(Dialect):
    """Builds queries, without running them."""

    def __init__(self, tables: PostgresqlTables) -> None:
        self._lock, self._look, self._look_at_all = tables.fill(_LOCK, _LOOK, _LOOK_AT_ALL)
        self._beside, self._all_beside = tables.fill(_BESIDE, _ALL_BESIDE)
        self._own, self._own_among, self._same_owner = tables.fill(_OWN, _OWN_AMONG, _FELLOWS)
        self._end_of_line, self._count_before = tables.fill(_END_OF_LINE, _COUNT_BEFORE)
        self._names_in_use, self._names_of = tables.fill(_IN_USE, _OF_CLIENTS)
        self._make, self._save = tables.fill(_MAKE, _SAVE)
        self._drop, self._drop_many = tables.fill(_DROP, _DROP_MANY)
        self._count, self._record_changed = tables.fill(_COUNT, _RECORD_CHANGED)

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Query]:
        if not locked and front is None:
            return (Query(self._look_at_all, (key,)),)
        if not locked:
            return (Query(self._look, (key, front)),)
        lock = Query(self._lock, (key,))
        if front is None:
            return (lock, Query(self._all_beside, (key,)))
        return (lock, Query(self._beside, (key, front)))

    def own(self, key: bytes, claim_id: str, arrived: int) -> Query:
        return Query(self._own, (key, claim_id, arrived))

    def end_of_line(self, key: bytes) -> Query:
        return Query(self._end_of_line, (key,))

    def names_in_use(self, start: bytes) -> Query:
        return Query(self._names_in_use, (start,))

    def _listing(self, text: str, members: Sequence[object], *values: object) -> Query:
        return Query(text, (*values, json.dumps(list(members))))

    def save(self, change: Change) -> Queries:
        key, found = change.key, list[QueryMany]()
        if len(change.left) == 1:
            found.append(QueryMany(self._drop, [(key, change.left[0])]))
        elif change.left:
            arrivals = ",".join(map(str, change.left))
            found.append(QueryMany(self._drop_many, [(key, f"{{{arrivals}}}")]))
        if change.rows:
            rows = [
                dict(zip(("arrived", *CLAIM_COLUMNS), row[1:], strict=False)) for row in change.rows
            ]
            found.append(QueryMany(self._save, [(key, json.dumps(rows))]))
        head = change.head or 0
        if change.record is not None:
            _, _, *claim, capacity, token = change.record
            values = (key, change.crowd, head, capacity, token, *claim)
            found.append(QueryMany(self._record_changed, [values]))
        elif found:
            found.append(QueryMany(self._count, [(key, change.crowd, head)]))
        return found
