"""Idle names go after a day: a lock per order id must not fill the table for ever.

A name's next token is larger than its last one, or the server's time, whichever is more. So a
record may be forgotten once its last token lies well behind that time: the next is larger all
the same, unless the server's clock is set back by a day or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.backends.postgresql.statements import NOW
from holdfast.backends.sql.steps import Ask

if TYPE_CHECKING:
    from holdfast.backends.postgresql.schema import Tables
    from holdfast.backends.postgresql.values import Rows

SWEEP_AFTER = 24 * 3600.0
"""An idle record may go once its last token is this far behind the server's clock."""

SWEEP_EVERY = 64
SWEEP_ROWS = 256

# Idle is who is held by nobody, or by somebody whose lease, and all that it keeps closed, ended
# as long ago: one that died, at a name that nobody asked for since.
_IDLE = """
crowd = 0 AND last_token < ({now} - {after}) * 1000000
    AND (id = '' OR greatest(until + lock_delay, since + min_hold) < {now} - {after})
"""
# Whoever is at work on a row has it locked, and is left alone: a broom that waited would make
# others wait behind it. The condition is asked of the row as it is once it is locked.
_SWEEP = """
WITH seen AS MATERIALIZED (
    SELECT key FROM {door} WHERE key > $1 ORDER BY key LIMIT $2
), idle AS MATERIALIZED (
    SELECT key FROM {door} WHERE key IN (SELECT key FROM seen) AND {idle}
    ORDER BY key FOR UPDATE SKIP LOCKED
), swept AS (
    DELETE FROM {door} WHERE key IN (SELECT key FROM idle) AND {idle} RETURNING 1
)
SELECT (SELECT count(*) FROM seen), (SELECT key FROM seen ORDER BY key DESC LIMIT 1),
    (SELECT count(*) FROM swept)
"""


class Broom:
    """Sweeps a few rows at a time, from where it stopped: no caller should pay for all.

    It says what to ask, and asks nothing itself; calls of it do not overlap.
    """

    def __init__(self, tables: Tables) -> None:
        idle = _IDLE.format(now=NOW, after=SWEEP_AFTER)
        self._statement = _SWEEP.format(door=tables.door, idle=idle)
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
        return Ask(self._statement, (self._from, SWEEP_ROWS))

    def swept(self, rows: Rows) -> int:
        """Go on behind the rows that were looked at; return how many went."""
        [(looked_at, last, gone)] = rows
        self._from = last if looked_at == SWEEP_ROWS else b""
        return int(gone)
