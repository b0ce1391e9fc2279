# Generated from src/lockfast/backends/sql/_async/sweeping.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Sweeping idle names now and then, and never at the cost of whoever happens to be there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lockfast.errors import LockError
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from lockfast.backends.sql._sync.wire import Wire
    from lockfast.backends.sql.sweeping import Broom


AT_ONCE = 64
"""More sweeps than this are not made up for: the next time there is another chance."""


class Sweeper:
    """One client's broom; one at a time sweeps with it."""

    def __init__(self, wire: Wire[Any], broom: Broom) -> None:
        self._wire = wire
        self._broom = broom
        self._state = runtime.StateLock()
        self._due = 0

    def count(self, releases: int = 1) -> None:
        """Know of releases; each of so many makes a sweep due."""
        with self._state:
            self._due += self._broom.is_due(releases)

    def sweep(self, *, deadline: float) -> int:
        """Sweep as often as is due; return how many names went. Raises no error of the store."""
        with self._state:
            due, self._due = min(self._due, AT_ONCE), 0
        gone = 0
        try:
            for _ in range(due):
                gone += self._sweep(deadline)
        except LockError:
            # Whoever asks the store next will tell what is wrong with it. What was not swept goes
            # the next time.
            return gone
        return gone

    def after_fork_in_child(self) -> None:
        """Wait for nobody of the parent's."""
        self._state = runtime.StateLock()

    def _sweep(self, deadline: float) -> int:
        rows = self._wire.ask(self._broom.request(), deadline=deadline)
        gone, between = self._broom.swept(rows)
        if between is None:
            return gone
        steps = partial(self._broom.lines, between)
        return gone + self._wire.transact(steps, deadline=deadline)
