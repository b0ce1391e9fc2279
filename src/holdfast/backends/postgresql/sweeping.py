"""Idle names go after a day: a lock per order id must not fill the table for ever.

A name's next token is larger than its last one, or the server's time, whichever is more. So a
record may be forgotten once its last token lies well behind that time: the next is larger all
the same, unless the server's clock is set back by a day or more.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from holdfast.backends.postgresql.statements import NOW
from holdfast.backends.sql.steps import Ask

if TYPE_CHECKING:
    from holdfast.backends.postgresql.schema import Tables
    from holdfast.backends.sql.steps import Rows, Steps

SWEEP_AFTER = 24 * 3600.0
"""An idle record may go once its last token is this far behind the server's clock."""

SWEEP_EVERY = 64
SWEEP_ROWS = 128

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


class Broom:
    """Sweeps a few rows at a time, from where it stopped: no caller should pay for all.

    It says what to ask, and asks nothing itself; calls of it do not overlap.
    """

    def __init__(self, tables: Tables) -> None:
        self._sweep, self._lock, self._sweep_lines = (
            one.format(door=tables.door, place=tables.place, nobody=_NOBODY, over=_OVER)
            for one in (_SWEEP, _LOCK, _SWEEP_LINES)
        )
        self._from = b""
        self._until_next = 0

    def is_due(self, releases: int = 1) -> bool:
        """Return whether it is time to sweep, after so many more releases."""
        self._until_next -= releases
        if self._until_next > 0:
            return False
        self._until_next = SWEEP_EVERY
        return True

    def request(self) -> Ask:
        """Ask for a few rows to be looked at, and the idle ones to go."""
        return Ask(self._sweep, (self._from, SWEEP_ROWS))

    def swept(self, rows: Rows) -> Swept:
        """Go on behind the rows that were looked at; return what became of them."""
        [(looked_at, last, gone, has_lines)] = rows
        begun, self._from = self._from, last if looked_at == SWEEP_ROWS else b""
        return Swept(gone, (begun, last) if has_lines else None)

    def lines(self, between: tuple[bytes, bytes]) -> Steps[int]:
        """Sweep names behind the first, up to the second, where only the dead are in line."""
        [found] = yield [Ask(self._lock, between)]
        keys = [key for (key,) in found]
        if not keys:
            return 0
        [[(gone,)]] = yield [Ask(self._sweep_lines, (json.dumps(keys),))]
        return int(gone)


class Swept(NamedTuple):
    """How many names went; and between which names there are lines that seem dead, if any."""

    gone: int
    lines_between: tuple[bytes, bytes] | None
