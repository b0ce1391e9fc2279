"""What events say of hold and wait times, by pattern: memory does not grow with their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lockfast.core.telling import AT, FACTS, kind_of
from lockfast.events import (
    Acquired,
    AtRisk,
    Detached,
    Lost,
    Released,
    Renewed,
    TimedOut,
    Waiting,
    Withdrawn,
)
from lockfast.observe.patterns import pattern_of
from lockfast.observe.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lockfast.core.telling import Note
    from lockfast.events import Event
    from lockfast.model import Claim
    from lockfast.observe.figures import Figures

MOST: Final = 200
"""So many pairs of a pattern and a ttl are told apart."""
MOST_OPEN: Final = 100_000
"""So many leases may be held at a time; of more than these it is not known how long."""


class Told(NamedTuple):
    """A claim as an event tells of it."""

    name: str
    id: str
    kind: str


class Summary:
    """Is told of events by notes; not for several threads at once."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, float, bool], Tally] = {}
        self._latest: dict[str, Tally] = {}
        self._held: dict[str, Tally] = {}
        self._waiting: dict[str, None] = {}
        self._first: float | None = None
        self._last = 0.0
        self.left_out: int = 0
        """How many leases were not counted, because there were too many patterns."""
        self._acts: dict[type[Event], Callable[[Claim | Told, Note], None]] = {
            Waiting: self._waits,
            Acquired: self._acquired,
            TimedOut: self._timed_out,
            Withdrawn: self._withdrawn,
            Renewed: self._renewed,
            AtRisk: self._at_risk,
            Released: self._released,
            Lost: self._lost,
            Detached: self._detached,
        }

    def take(self, notes: Sequence[Note]) -> None:
        """Count what they tell; those of an event know of its claim what `Told` does."""
        acts, last = self._acts, self._last
        for note in notes:
            act, claim = acts.get(note[0]), note[1]
            if act is None or claim is None:
                continue
            if self._first is None:
                self._first = note[AT]
            if note[AT] > last:  # noqa: PLR1730 - at each event a comparison costs less than max()
                last = note[AT]
            act(claim, note)
        self._last = last

    def figures(self) -> tuple[Figures, ...]:
        """Return what was counted so far, the patterns that most happened to first."""
        seconds = 0.0 if self._first is None else max(0.0, self._last - self._first)
        found = [one.figures(seconds=seconds) for one in self._tallies.values()]
        return tuple(sorted(found, key=lambda one: (-one.waits.count, one.pattern, one.ttl)))

    # -- one event each ----------------------------------------------------------------

    def _waits(self, claim: Claim | Told, _note: Note) -> None:
        _keep(self._waiting, claim.id, None)

    def _acquired(self, claim: Claim | Told, note: Note) -> None:
        name, claim_id = claim.name, claim.id
        waited, ttl, renews = note[FACTS : FACTS + 3]
        stood = claim_id in self._waiting
        if stood:
            del self._waiting[claim_id]
        pattern = pattern_of(name)
        tally = self._tallies.get((pattern, ttl, renews))
        if tally is None:
            if len(self._tallies) >= MOST:
                self.left_out += 1
                return
            kind = claim.kind if isinstance(claim, Told) else kind_of(claim)
            tally = Tally(pattern, ttl=ttl, renews=renews, kind=kind)
            self._tallies[pattern, ttl, renews] = tally
        self._latest[pattern] = tally
        tally.acquired(name, waited, stood_in_line=stood)
        _keep(self._held, claim_id, tally)

    def _timed_out(self, claim: Claim | Told, _note: Note) -> None:
        self._waiting.pop(claim.id, None)
        tally = self._latest.get(pattern_of(claim.name))
        if tally is not None:
            tally.timeouts += 1

    def _withdrawn(self, claim: Claim | Told, _note: Note) -> None:
        self._waiting.pop(claim.id, None)

    def _renewed(self, claim: Claim | Told, note: Note) -> None:
        tally = self._held.get(claim.id)
        if tally is not None:
            tally.renewed(note[FACTS])

    def _at_risk(self, claim: Claim | Told, _note: Note) -> None:
        tally = self._held.get(claim.id)
        if tally is not None:
            tally.at_risk += 1

    def _released(self, claim: Claim | Told, note: Note) -> None:
        tally = self._held.pop(claim.id, None)
        if tally is not None:
            tally.released(claim.name, note[FACTS])

    def _lost(self, claim: Claim | Told, note: Note) -> None:
        tally = self._held.pop(claim.id, None)
        if tally is not None:
            tally.lost(note[FACTS])

    def _detached(self, claim: Claim | Told, _note: Note) -> None:
        self._held.pop(claim.id, None)  # somebody else will end it


def _keep(kept: dict[str, Any], claim: str, value: object) -> None:
    """Know the claim, and forget the oldest where there are too many: its end was never told."""
    kept[claim] = value
    if len(kept) > MOST_OPEN:
        del kept[next(iter(kept))]
