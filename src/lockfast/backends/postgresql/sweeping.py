"""How idle names go from the tables of PostgreSQL."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lockfast.backends.postgresql.statements import NOW
from lockfast.backends.sql.steps import Ask
from lockfast.backends.sql.sweeping import SWEEP_AFTER, Broom

if TYPE_CHECKING:
    from lockfast.backends.postgresql.schema import Tables
    from lockfast.backends.sql.steps import Steps

_OLD = f"last_token < ({NOW} - {SWEEP_AFTER}) * 1000000"
# As long ago the lease has ended, and all that it kept closed: one that died, at a name that
# nobody asked for since.
_OVER = f"greatest(until + lock_delay, since + min_hold) < {NOW} - {SWEEP_AFTER}"
_NOBODY = f"{_OLD} AND (id = '' OR {_OVER})"

# Whoever is at work on a row has it locked, and is left alone: a broom that waited would make
# others wait behind it. The condition is asked of the row as it is once it is locked. By arrays:
# joined, the planner may read a whole table for the sake of a few rows.
_SWEEP = """
WITH seen AS MATERIALIZED (
    SELECT key, crowd, {nobody} AS is_left FROM {door} WHERE key > $1 ORDER BY key LIMIT $2
), idle AS MATERIALIZED (
    SELECT key FROM {door}
    WHERE key = ANY (ARRAY(SELECT seen.key FROM seen WHERE is_left AND seen.crowd = 0))
        AND crowd = 0 AND {nobody}
    ORDER BY key FOR UPDATE SKIP LOCKED
), swept AS (
    DELETE FROM {door} WHERE key = ANY (ARRAY(SELECT key FROM idle)) AND crowd = 0 AND {nobody}
    RETURNING 1
)
SELECT (SELECT count(*) FROM seen), (SELECT key FROM seen ORDER BY key DESC LIMIT 1),
    (SELECT count(*) FROM swept), EXISTS (SELECT FROM seen WHERE is_left AND crowd > 0)
"""

# What died in line, or was buried there, leaves rows beside the record. They are read once the
# name is locked, in a statement of their own: one that locks sees them as they were before.
_LOCK = """
SELECT encode(key, 'hex') FROM {door}
WHERE key > $1 AND key <= $2 AND crowd > 0 AND {nobody} ORDER BY key FOR UPDATE SKIP LOCKED
"""
# Who waits does so without an end. But where nobody was inside for a day, who lives would have
# been let in.
_SWEEP_LINES = """
WITH over AS MATERIALIZED (
    SELECT decode(one, 'hex') AS key FROM json_array_elements_text($1::json) AS one
    WHERE NOT EXISTS (
        SELECT FROM {place} AS p
        WHERE p.key = decode(one, 'hex') AND p.standing <> 3 AND NOT ({over})
    )
), left_behind AS (
    DELETE FROM {place} WHERE key = ANY (ARRAY(SELECT key FROM over))
), swept AS (
    DELETE FROM {door} WHERE key = ANY (ARRAY(SELECT key FROM over)) RETURNING 1
)
SELECT count(*) FROM swept
"""


class PostgresqlBroom(Broom):
    """Idle names go by the statement that looks; dead lines by steps."""

    def __init__(self, tables: Tables) -> None:
        sweep, self._lock, self._sweep_lines = (
            one.format(door=tables.door, place=tables.place, nobody=_NOBODY, over=_OVER)
            for one in (_SWEEP, _LOCK, _SWEEP_LINES)
        )
        super().__init__(sweep)

    def lines(self, between: tuple[bytes, bytes]) -> Steps[int]:
        """Sweep names behind the first, up to the second, where only the dead are in line."""
        [found] = yield [Ask(self._lock, between)]
        keys = [key for (key,) in found]
        if not keys:
            return 0
        [[(gone,)]] = yield [Ask(self._sweep_lines, (json.dumps(keys),))]
        return int(gone)
