"""What events say of hold and wait times, by pattern: memory does not grow with their number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.observe.patterns import pattern_of
from holdfast.observe.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.observe.figures import Figures

MOST: Final = 200
"""So many pairs of a pattern and a ttl are told apart."""
MOST_OPEN: Final = 100_000
"""So many leases may be held at a time; of more than these it is not known how long."""


class Summary:
    """Is told of events by their words; not for several threads at once."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, float, bool], Tally] = {}
        self._latest: dict[str, Tally] = {}
        self._held: dict[str, Tally] = {}
        self._waiting: dict[str, None] = {}
        self._first: float | None = None
        self._last = 0.0
        self.left_out: int = 0
        """How many leases were not counted, because there were too many patterns."""
        self._acts: dict[str, Callable[..., None]] = {
            "Waiting": self._waits,
            "Acquired": self._acquired,
            "TimedOut": self._timed_out,
            "Withdrawn": self._withdrawn,
            "Renewed": self._renewed,
            "AtRisk": self._at_risk,
            "Released": self._released,
            "Lost": self._lost,
            "Detached": self._detached,
        }

    def take(
        self, event: str, *, name: str, claim: str, kind: str, at: float, facts: Sequence[Any]
    ) -> None:
        """Count an event: its class's name, and its own fields in their order."""
        act = self._acts.get(event)
        if act is None:
            return
        if self._first is None:
            self._first = at
        self._last = max(self._last, at)
        act(name, claim, kind, *facts)

    def figures(self) -> tuple[Figures, ...]:
        """Return what was counted so far, the patterns that most happened to first."""
        seconds = 0.0 if self._first is None else max(0.0, self._last - self._first)
        found = [one.figures(seconds=seconds) for one in self._tallies.values()]
        return tuple(sorted(found, key=lambda one: (-one.waits.count, one.pattern, one.ttl)))

    # -- one event each ----------------------------------------------------------------

    def _waits(self, _name: str, claim: str, _kind: str, *_: object) -> None:
        _keep(self._waiting, claim, None)

    def _acquired(  # noqa: PLR0917 - as the event has them
        self,
        name: str,
        claim: str,
        kind: str,
        waited: float,
        ttl: float,
        renews: bool,  # noqa: FBT001
    ) -> None:
        stood = claim in self._waiting
        if stood:
            del self._waiting[claim]
        tally = self._tally(pattern_of(name), ttl, renews, kind)
        if tally is None:
            self.left_out += 1
            return
        tally.acquired(name, waited, stood_in_line=stood)
        _keep(self._held, claim, tally)

    def _timed_out(self, name: str, claim: str, _kind: str, *_: object) -> None:
        self._waiting.pop(claim, None)
        tally = self._latest.get(pattern_of(name))
        if tally is not None:
            tally.timeouts += 1

    def _withdrawn(self, _name: str, claim: str, _kind: str, *_: object) -> None:
        self._waiting.pop(claim, None)

    def _renewed(self, _name: str, claim: str, _kind: str, margin: float) -> None:
        tally = self._held.get(claim)
        if tally is not None:
            tally.renewed(margin)

    def _at_risk(self, _name: str, claim: str, _kind: str, _remaining: float) -> None:
        tally = self._held.get(claim)
        if tally is not None:
            tally.at_risk += 1

    def _released(self, name: str, claim: str, _kind: str, held: float) -> None:
        tally = self._held.pop(claim, None)
        if tally is not None:
            tally.released(name, held)

    def _lost(self, _name: str, claim: str, _kind: str, reason: str, _held: float = 0.0) -> None:
        tally = self._held.pop(claim, None)
        if tally is not None:
            tally.lost(reason)

    def _detached(self, _name: str, claim: str, _kind: str, *_: object) -> None:
        self._held.pop(claim, None)  # somebody else will end it

    def _tally(self, pattern: str, ttl: float, renews: bool, kind: str) -> Tally | None:  # noqa: FBT001
        key = (pattern, ttl, renews)
        tally = self._tallies.get(key)
        if tally is None:
            if len(self._tallies) >= MOST:
                return None
            tally = self._tallies[key] = Tally(pattern, ttl=ttl, renews=renews, kind=kind)
        self._latest[pattern] = tally
        return tally


def _keep(kept: dict[str, Any], claim: str, value: object) -> None:
    """Know the claim, and forget the oldest where there are too many: its end was never told."""
    kept[claim] = value
    if len(kept) > MOST_OPEN:
        del kept[next(iter(kept))]
