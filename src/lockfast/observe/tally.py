"""What is counted of the leases of one pattern that have one ttl; in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lockfast.model import BY_TTL
from lockfast.observe.figures import Busiest, Figures
from lockfast.observe.spans import Spans

if TYPE_CHECKING:
    from lockfast.observe.figures import Source

MOST_NAMES: Final = 32
"""Of so many names of a pattern is known by itself how they fare; of the others only together."""


class NameTally:
    """What is counted of one name."""

    __slots__ = ("acquired", "held", "released", "stood_in_line", "waited")

    def __init__(self) -> None:
        self.acquired: int = 0
        self.stood_in_line: int = 0
        self.released: int = 0
        self.waited: float = 0.0
        self.held: float = 0.0

    def as_busiest(self, name: str) -> Busiest:
        """Return it as what was seen of the busiest name."""
        return Busiest(
            name=name,
            acquired=self.acquired,
            stood_in_line=self.stood_in_line,
            mean_wait=self.waited / self.acquired if self.acquired else 0.0,
            mean_hold=self.held / self.released if self.released else 0.0,
        )


class Tally:
    """What is counted of one pattern, ttl, and renewal or none."""

    def __init__(self, pattern: str, *, ttl: float, renews: bool, kind: str = "lock") -> None:
        self.pattern: str = pattern
        self.ttl: float = ttl
        self.renews: bool = renews
        self.kind: str = kind
        self.holds: Spans = Spans()
        self.waits: Spans = Spans()
        self.timeouts: int = 0
        self.renewals: int = 0
        self.at_risk: int = 0
        self._losses: dict[str, int] = {}
        self._least_margin: float | None = None
        self._most_margin = 0.0
        self._names: dict[str, NameTally] = {}

    def acquired(self, name: str, waited: float, *, stood_in_line: bool) -> None:
        """Count one that was acquired after so long."""
        self.waits.add(waited)
        one = self._names.get(name) or self._room_for(name, is_waited_for=stood_in_line)
        if one is not None:
            one.acquired += 1
            one.waited += waited
            one.stood_in_line += stood_in_line

    def released(self, name: str, held: float) -> None:
        """Count one that its holder ended after so long."""
        self.holds.add(held)
        one = self._names.get(name)
        if one is not None:
            one.released += 1
            one.held += held

    def lost(self, reason: str) -> None:
        """Count one that was lost."""
        self._losses[reason] = self._losses.get(reason, 0) + 1

    def renewed(self, margin: float) -> None:
        """Count a renewal that was answered when so much time was left."""
        self.renewals += 1
        if self._least_margin is None or margin < self._least_margin:
            self._least_margin = margin
        self._most_margin = max(self._most_margin, margin)

    def _room_for(self, name: str, *, is_waited_for: bool) -> NameTally | None:
        names = self._names
        if len(names) >= MOST_NAMES:
            if not is_waited_for:
                return None
            del names[min(names, key=lambda one: names[one].waited)]
        names[name] = one = NameTally()
        return one

    def figures(self, *, seconds: float, source: Source = "events") -> Figures:
        """Return what was counted so far."""
        names = {name: one for name, one in self._names.items() if one.stood_in_line}
        busiest = max(names, key=lambda one: names[one].waited, default=None)
        # Nobody renews earlier but who does it by hand; some stores later.
        usual = min(self._most_margin, self.ttl * (1 - BY_TTL.renewed_after))
        return Figures(
            pattern=self.pattern,
            ttl=self.ttl,
            renews=self.renews,
            source=source,
            seconds=seconds,
            kind=self.kind,
            holds=self.holds.spread(),
            waits=self.waits.spread(),
            losses=tuple(sorted(self._losses.items())),
            timeouts=self.timeouts,
            renewals=self.renewals,
            at_risk=self.at_risk,
            least_margin=self._least_margin,
            usual_margin=None if self._least_margin is None else usual,
            busiest=None if busiest is None else names[busiest].as_busiest(busiest),
        )
