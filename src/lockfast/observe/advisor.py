"""A hook that listens to clients, and gives advice on their ttls and lines."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from lockfast.core.telling import Sink, own_fields
from lockfast.observe.advising import advice_on
from lockfast.observe.summary import Summary, Told
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.core.telling import Note, Standing
    from lockfast.events import Event
    from lockfast.observe.advice import Advice
    from lockfast.observe.figures import Figures


class Advisor(Sink):
    """Knows how long leases were waited for and held, by pattern of names, in bounded memory.

    Give it to one client or to several (`on_event=`). It hears of what happens a moment later, as
    every hook does, and costs nothing where there is none.
    """

    def __init__(self) -> None:
        # Re-entrant: a signal handler or a finalizer may come back in the middle of it.
        self._lock = threading.RLock()
        self._summary = Summary()
        forking.forget_in_child(self)

    def take(self, notes: Sequence[Note], owner: str, store: str) -> None:
        """Count what has happened."""
        del owner, store
        with self._lock:
            self._summary.take(notes)

    def set_right(self, standing: Standing, store: str) -> None:
        """Do nothing: what was not heard of is not counted, and what never ends is forgotten."""

    def __call__(self, event: Event) -> None:
        """Count an event."""
        claim = Told(event.name, event.claim, event.kind)
        facts = [getattr(event, one) for one in own_fields(event)]
        with self._lock:
            self._summary.take([(type(event), claim, event.token, event.at, None, *facts)])

    def advice(self) -> tuple[Advice, ...]:
        """Return what can be said by now, with the figures that it rests on."""
        return tuple(one for figures in self.figures() for one in advice_on(figures))

    def figures(self) -> tuple[Figures, ...]:
        """Return what was seen by now, the patterns that most happened to first."""
        with self._lock:
            return self._summary.figures()

    @property
    def left_out(self) -> int:
        """How many leases were not counted, because there were too many patterns."""
        return self._summary.left_out

    def after_fork_in_child(self) -> None:
        """Count anew: what the parent holds is counted there."""
        self._lock = threading.RLock()
        self._summary = Summary()
