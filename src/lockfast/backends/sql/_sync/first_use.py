# Generated from src/lockfast/backends/sql/_async/first_use.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""The tables on first use: they are looked at once, and made if they are not there."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lockfast._sync.single_flight import LAST_WORD, SingleFlight
from lockfast.backends.sql import refusals
from lockfast.backends.sql._sync.making import made

if TYPE_CHECKING:
    from lockfast.backends.sql._sync.wire import Wire
    from lockfast.backends.sql.tables import Tables
    from lockfast.runtime.clock import Clock


class FirstUse:
    """Knows whether they are there. A crowd that comes at once looks once."""

    def __init__(self, wire: Wire[Any], tables: Tables, clock: Clock) -> None:
        self._wire = wire
        self._tables = tables
        self._looking = SingleFlight[bool](clock)
        self.is_over = False

    def ready(self, *, deadline: float) -> None:
        """Return when they are; raise if they are not ours, or not there and not to be made."""
        if self.is_over:
            return
        look = partial(made, self._wire, self._tables, deadline=deadline)
        looked = self._looking.fly(look, deadline=deadline + LAST_WORD)
        if looked.has_failed and not looked.was_ours:
            # Once more: one look that a busy machine could not finish would fail the whole crowd.
            looked = self._looking.fly(look, deadline=deadline + LAST_WORD)
        if not looked.is_known:
            raise refusals.no_time(where=self._wire.where)
        looked.result()
        self.is_over = True

    def stop(self) -> None:
        """End what is under way."""
        self._looking.end()

    def after_fork_in_child(self) -> None:
        """Leave what is under way to the parent."""
        self._looking.after_fork_in_child()
