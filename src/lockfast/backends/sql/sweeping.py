"""Idle names go after a day: a lock per order id must not fill the table for ever.

A name's next token is larger than its last one, or the server's time, whichever is more. So a
record may be forgotten once its last token lies well behind that time: the next is larger all
the same, unless the server's clock is set back by a day or more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lockfast.backends.sql.steps import Ask

if TYPE_CHECKING:
    from lockfast.backends.sql.steps import Rows, Steps

SWEEP_AFTER = 24 * 3600.0
"""An idle record may go once its last token is this far behind the server's clock."""

SWEEP_EVERY = 64
SWEEP_ROWS = 128


class Swept(NamedTuple):
    """How many names went; and between which names there is more to sweep by steps, if any."""

    gone: int
    left_between: tuple[bytes, bytes] | None


class Broom:
    """Sweeps a few rows at a time, from where it stopped: no caller should pay for all.

    It says what to ask, and asks nothing itself; calls of it do not overlap. A store says how
    a few rows are looked at, by the key behind which they are and their number, and what becomes
    of those that are left: in that very statement, or by steps in a transaction.
    """

    def __init__(self, sweep: str) -> None:
        self._sweep = sweep
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
        """Ask for a few rows to be looked at."""
        return Ask(self._sweep, (self._from, SWEEP_ROWS))

    def swept(self, rows: Rows) -> Swept:
        """Go on behind the rows that were looked at; return what became of them.

        One row tells how many were seen, the last key, how many went, and whether more may.
        """
        [(looked_at, last, gone, is_more)] = rows
        begun, self._from = self._from, bytes(last) if looked_at == SWEEP_ROWS else b""
        return Swept(gone, (begun, bytes(last)) if is_more else None)

    def lines(self, between: tuple[bytes, bytes]) -> Steps[int]:
        """Sweep names behind the first, up to the second; return how many went."""
        raise NotImplementedError
