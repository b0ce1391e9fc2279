"""The statements of a door, which lock the name's row and then read the other entries.

Locking and reading are separate statements, because the read has to see the entries as they are
once the row is locked. The reads after the lock are locking reads as well, because only locking
reads see the latest commits in every isolation level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.mysql.schema import CLAIM_COLUMNS
from lockfast.backends.mysql.statements import NOW
from lockfast.backends.sql.dialect import Dialect
from lockfast.backends.sql.steps import Query, QueryMany

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.mysql.schema import MysqlTables
    from lockfast.backends.sql.door_rows import Change
    from lockfast.backends.sql.steps import Queries

_CLAIM = ", ".join(CLAIM_COLUMNS)
_RECORD = f"0, {_CLAIM}, capacity, last_token"
_PLACE = f"arrived, {_CLAIM}, 0, 0"

# -- reading ---------------------------------------------------------------------------

_LOCK = f"SELECT {NOW}, {_RECORD} FROM {{door}} WHERE `key` = %s FOR UPDATE"
_INSIDE = f"SELECT {_PLACE} FROM {{place}} WHERE `key` = %s AND standing <> 3"
_FRONT = f"""
SELECT {_PLACE} FROM {{place}} WHERE `key` = %s AND standing = 3 ORDER BY arrived LIMIT %s
"""
_ALL_BESIDE = f"SELECT {_PLACE} FROM {{place}} WHERE `key` = %s"
# Verbs that only read use one statement, so that all rows are from the same moment.
_LOOK_AT_ALL = f"""
(SELECT {NOW}, {_RECORD} FROM {{door}} WHERE `key` = %s)
UNION ALL (SELECT 0, {_PLACE} FROM {{place}} WHERE `key` = %s)
"""
_LOOK = f"""
(SELECT {NOW}, {_RECORD} FROM {{door}} WHERE `key` = %s)
UNION ALL (SELECT 0, {_PLACE} FROM {{place}} WHERE `key` = %s AND standing <> 3)
UNION ALL (SELECT 0, {_PLACE} FROM {{place}} WHERE `key` = %s AND standing = 3
    ORDER BY arrived LIMIT %s)
"""
_OWN_AMONG = f"""
SELECT {_PLACE} FROM {{place}} WHERE `key` = %s AND standing = 3 AND id IN (LIST)
"""
_OWN = f"SELECT {_PLACE} FROM {{place}} WHERE `key` = %s AND arrived = %s AND id = %s"
_FELLOWS = f"""
SELECT {_PLACE} FROM {{place}} WHERE `key` = %s AND standing = 3 AND party IN (LIST)
"""
_END_OF_LINE = """
SELECT COALESCE((SELECT MAX(arrived) FROM {place} WHERE `key` = %s), 0),
    COALESCE((SELECT crowd FROM {door} WHERE `key` = %s), 0)
"""
_COUNT_BEFORE = """
SELECT COUNT(*) FROM {place} WHERE `key` = %s AND standing = 3 AND arrived < %s
"""
_IN_USE = """
SELECT `key` FROM {door} WHERE `key` >= %s AND LEFT(`key`, %s) = %s
    AND (crowd > 0 OR id <> '') ORDER BY `key`
"""
_OF_CLIENTS = """
SELECT `key` FROM {door} WHERE client IN (LIST)
UNION SELECT `key` FROM {place} WHERE client IN (LIST) ORDER BY 1
"""

# -- writing ---------------------------------------------------------------------------

# This is not an INSERT IGNORE, because two transactions that find an existing row would share a
# lock on it, and then each would wait for the other to release it.
_MAKE = f"""
INSERT INTO {{door}} (`key`, {_CLAIM}, capacity, last_token, crowd, head)
VALUES (%s, '', '', '', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, 0, 0)
ON DUPLICATE KEY UPDATE head = head
"""
_DROP = "DELETE FROM {place} WHERE `key` = %s AND arrived = %s"
_SAVE = f"""
INSERT INTO {{place}} (`key`, arrived, {_CLAIM})
VALUES ({", ".join(["%s"] * (2 + len(CLAIM_COLUMNS)))})
ON DUPLICATE KEY UPDATE {", ".join(f"{name} = %s" for name in CLAIM_COLUMNS)}
"""
_COUNT = "UPDATE {door} SET crowd = crowd + %s, head = %s WHERE `key` = %s"
_CHANGE = f"""
UPDATE {{door}} SET {", ".join(f"{name} = %s" for name in CLAIM_COLUMNS)}, capacity = %s,
    last_token = %s, crowd = crowd + %s, head = %s
WHERE `key` = %s
"""


class MysqlDialect(Dialect):
    """Builds the queries that read and write doors, without running them."""

    _mark = "%s"

    def __init__(self, tables: MysqlTables) -> None:
        rows = (_INSIDE, _FRONT, _ALL_BESIDE, _OWN, _OWN_AMONG, _FELLOWS)
        locking = [f"{one} FOR UPDATE" for one in tables.fill(*rows)]
        self._inside, self._front, self._all_beside = locking[:3]
        self._own, self._own_among, self._same_owner = locking[3:]
        self._lock, self._look, self._look_at_all = tables.fill(_LOCK, _LOOK, _LOOK_AT_ALL)
        self._end_of_line, self._count_before = tables.fill(_END_OF_LINE, _COUNT_BEFORE)
        self._names_in_use, self._names_of = tables.fill(_IN_USE, _OF_CLIENTS)
        self._make, self._drop, self._save = tables.fill(_MAKE, _DROP, _SAVE)
        self._count, self._change = tables.fill(_COUNT, _CHANGE)

    def door(self, key: bytes, *, front: int | None, locked: bool) -> Sequence[Query]:
        if not locked and front is None:
            return (Query(self._look_at_all, (key, key)),)
        if not locked:
            return (Query(self._look, (key, key, key, front)),)
        lock = Query(self._lock, (key,))
        if front is None:
            return (lock, Query(self._all_beside, (key,)))
        return (lock, Query(self._inside, (key,)), Query(self._front, (key, front)))

    def save(self, change: Change) -> Queries:
        key, found = change.key, list[QueryMany]()
        if change.left:
            found.append(QueryMany(self._drop, [(key, arrived) for arrived in change.left]))
        if change.rows:
            size = 2 + len(CLAIM_COLUMNS)
            rows = [(*row[:size], *row[2:size]) for row in change.rows]
            found.append(QueryMany(self._save, rows))
        crowd, head = change.crowd, change.head or 0
        if change.record is not None:
            found.append(QueryMany(self._change, [(*change.record[2:], crowd, head, key)]))
        elif found:
            found.append(QueryMany(self._count, [(crowd, head, key)]))
        return found
