"""A hook that collects events from clients, and gives advice on their ttls and lines."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from lockfast.core.event_notes import EventObserver, NoteSink, dispatch, kind_of
from lockfast.events import Reconnected, SafeAgain, Skipped, StoreError
from lockfast.observe.advice import advice_on
from lockfast.observe.figures import Tally
from lockfast.observe.patterns import pattern_of
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.core.event_notes import ClientSnapshot, EventNote
    from lockfast.events import LossReason
    from lockfast.observe.advice import Advice
    from lockfast.observe.figures import Figures

# Hold and wait times from events, by pattern. Memory does not grow with the number of events.

PATTERNS_KEPT: Final = 200
"""Maximum number of combinations of pattern and ttl that are counted."""
OPEN_CLAIMS_KEPT: Final = 100_000
"""Maximum number of open claims that are tracked; beyond it, the oldest claims are dropped."""


UNCOUNTED_EVENTS: Final = frozenset({Skipped, SafeAgain, StoreError, Reconnected})
"""Events that affect neither a figure nor the time span of the figures."""


class EventSummary(EventObserver):
    """Derives counts from events, by their notes; not thread-safe."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, float, bool], Tally] = {}
        self._latest: dict[str, Tally] = {}
        self._held: dict[str, Tally] = {}
        self._waiting: dict[str, None] = {}
        self._first: float | None = None
        self._last = 0.0
        self.left_out: int = 0
        """The number of leases that were not counted, because there were too many patterns."""

    def take(self, notes: Sequence[EventNote]) -> None:
        """Count the notes."""
        last = self._last
        for note in notes:
            if note.kind in UNCOUNTED_EVENTS:
                continue
            if self._first is None:
                self._first = note.at
            if note.at > last:  # noqa: PLR1730 - at each event a comparison costs less than max()
                last = note.at
            dispatch(note, self)
        self._last = last

    def figures(self) -> tuple[Figures, ...]:
        """Return the figures so far, starting with those that have the most acquires."""
        seconds = 0.0 if self._first is None else max(0.0, self._last - self._first)
        found = [one.figures(seconds=seconds) for one in self._tallies.values()]
        return tuple(sorted(found, key=lambda one: (-one.waits.count, one.pattern, one.ttl)))

    # -- one event each ----------------------------------------------------------------

    def waiting(self, note: EventNote, /, *_facts: object) -> None:
        """Note that the claim had to wait."""
        _keep(self._waiting, note.claim.id, None)

    def acquired(self, note: EventNote, waited: float, ttl: float, renews: bool, /) -> None:  # noqa: FBT001
        """Count the wait; the hold is counted when it ends."""
        name, claim_id = note.claim.name, note.claim.id
        stood = claim_id in self._waiting
        if stood:
            del self._waiting[claim_id]
        pattern = pattern_of(name)
        tally = self._tallies.get((pattern, ttl, renews))
        if tally is None:
            if len(self._tallies) >= PATTERNS_KEPT:
                self.left_out += 1
                return
            tally = Tally(pattern, ttl=ttl, renews=renews, kind=kind_of(note.claim))
            self._tallies[pattern, ttl, renews] = tally
        self._latest[pattern] = tally
        tally.acquired(name, waited, stood_in_line=stood)
        _keep(self._held, claim_id, tally)

    def timed_out(self, note: EventNote, /, *_facts: object) -> None:
        """Count the timeout for the pattern's latest lease, as this claim's ttl is not known."""
        self._waiting.pop(note.claim.id, None)
        tally = self._latest.get(pattern_of(note.claim.name))
        if tally is not None:
            tally.timeouts += 1

    def withdrawn(self, note: EventNote, /, *_facts: object) -> None:
        """Forget the claim."""
        self._waiting.pop(note.claim.id, None)

    def renewed(self, note: EventNote, margin: float, /) -> None:
        """Count the renewal."""
        tally = self._held.get(note.claim.id)
        if tally is not None:
            tally.renewed(margin)

    def at_risk(self, note: EventNote, /, *_facts: object) -> None:
        """Count the risk."""
        tally = self._held.get(note.claim.id)
        if tally is not None:
            tally.at_risk += 1

    def released(self, note: EventNote, held: float, /) -> None:
        """Count the hold."""
        tally = self._held.pop(note.claim.id, None)
        if tally is not None:
            tally.released(note.claim.name, held)

    def lost(self, note: EventNote, reason: LossReason, /, *_facts: object) -> None:
        """Count the loss."""
        tally = self._held.pop(note.claim.id, None)
        if tally is not None:
            tally.lost(reason)

    def detached(self, note: EventNote, /, *_facts: object) -> None:
        """Forget the claim, because the lease may end in another client."""
        self._held.pop(note.claim.id, None)


def _keep(kept: dict[str, Any], claim: str, value: object) -> None:
    """Track the claim; if too many are tracked, drop the oldest, whose end was probably missed."""
    kept[claim] = value
    if len(kept) > OPEN_CLAIMS_KEPT:
        del kept[next(iter(kept))]


class Advisor(NoteSink):
    """Collects wait and hold times by pattern of names, in bounded memory, and gives advice.

    Pass the advisor to one or more clients, as `on_event=`. Like every hook, it receives events
    shortly after they happen. A client without a hook has no extra cost.
    """

    def __init__(self) -> None:
        # The lock is re-entrant, because a signal handler or a finalizer may call us in the middle
        # of a call.
        self._lock = threading.RLock()
        self._summary = EventSummary()
        fork.reset_in_child(self)

    def take(self, notes: Sequence[EventNote], owner: str, store: str) -> None:
        """Count a batch of notes."""
        del owner, store
        with self._lock:
            self._summary.take(notes)

    def set_right(self, snapshot: ClientSnapshot, store: str) -> None:
        """Do nothing; missed events stay uncounted, and claims whose end was missed are dropped."""

    def advice(self) -> tuple[Advice, ...]:
        """Return the advice so far, with the figures behind it."""
        return tuple(one for figures in self.figures() for one in advice_on(figures))

    def figures(self) -> tuple[Figures, ...]:
        """Return the figures so far, starting with those that have the most acquires."""
        with self._lock:
            return self._summary.figures()

    @property
    def left_out(self) -> int:
        """The number of leases that were not counted, because there were too many patterns."""
        return self._summary.left_out

    def after_fork_in_child(self) -> None:
        """Start from zero in the child, because the parent counts its own holds."""
        self._lock = threading.RLock()
        self._summary = EventSummary()
