"""What looking at a store now and then says of hold and wait times: a pure account of looks.

A hold that ends between two looks lasted until the first of them at least and until the second at
most; the longer time is counted. One that is shorter than the interval is seen by chance. So what
is said here of holds and waits is "at most", and of their number "at least"; how often a name is
held and how many wait for it is as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lockfast.model import ALL, BY_TTL
from lockfast.observe.figures import Busiest
from lockfast.observe.patterns import pattern_of
from lockfast.observe.sighting import SLACK, Sighting
from lockfast.observe.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.model import Holder, Inspection
    from lockfast.observe.figures import Figures

MOST_NAMES: Final = 10_000
"""Of so many names is known how they fare; what comes later is left out."""
MOST_ENDED: Final = 100_000
"""Of so many holds that have ended is known how long they were."""
ALIKE: Final = 0.02
"""Two that differ by less than this part are one ttl."""
KINDS: Final = {1: "lock", ALL: "rwlock"}


class NameSeen:
    """What was seen of one name over all looks."""

    __slots__ = ("held", "holders", "in_line", "kind", "waited_for")

    def __init__(self, capacity: int) -> None:
        self.kind: str = KINDS.get(capacity, "semaphore")
        self.held: int = 0
        self.holders: int = 0
        self.in_line: int = 0
        self.waited_for: int = 0

    def as_busiest(self, name: str, *, looks: int) -> Busiest:
        """Return it as what was seen of the busiest name."""
        return Busiest(
            name=name,
            acquired=self.holders,
            stood_in_line=round(self.holders * self.waited_for / looks),
            line=self.in_line / looks,
            in_use=self.held / looks,
        )


class Looking:
    """Is shown a store again and again, and knows what came and went meanwhile."""

    def __init__(self) -> None:
        self.looks: int = 0
        self._first_at = self._last_at = 0.0
        self._names: dict[str, NameSeen] = {}
        self._holding: dict[tuple[str, object], Sighting] = {}
        self._waiting: dict[tuple[str, str], Sighting] = {}
        self._ended: list[tuple[str, Sighting, float | None]] = []
        self._waits: list[tuple[str, float]] = []

    def look(self, seen: Iterable[Inspection], *, at: float) -> None:
        """Know what a store says at that time, by a clock that never goes back."""
        if not self.looks:
            self._first_at = at
        self.looks += 1
        self._last_at = at
        holding: dict[tuple[str, object], Sighting] = {}
        waiting: dict[tuple[str, str], Sighting] = {}
        for one in seen:
            name = self._names.get(one.name)
            if name is None:
                if len(self._names) >= MOST_NAMES:
                    continue
                name = self._names[one.name] = NameSeen(one.capacity)
            name.held += bool(one.holders)
            name.in_line += len(one.line)
            name.waited_for += bool(one.line)
            for holder in one.holders:
                key = (one.name, _identity(holder))
                name.holders += key not in self._holding
                holding[key] = _seen(
                    self._holding.get(key), at=at, age=holder.age, left=holder.remaining
                )
            for waiter in one.line:
                whose = (one.name, waiter.owner.to_text())
                waiting[whose] = _seen(self._waiting.get(whose), at=at, age=waiter.age, left=None)
        self._go_on(holding, waiting, at=at)

    def _go_on(
        self,
        holding: dict[tuple[str, object], Sighting],
        waiting: dict[tuple[str, str], Sighting],
        *,
        at: float,
    ) -> None:
        if len(self._ended) < MOST_ENDED:
            gone = self._holding.keys() - holding.keys()
            self._ended += [(key[0], self._holding[key], at) for key in gone]
        if len(self._waits) < MOST_ENDED:
            left = self._waiting.keys() - waiting.keys()
            self._waits += [(key[0], self._waiting[key].ended(by=at)) for key in left]
        self._holding, self._waiting = holding, waiting

    @property
    def seconds(self) -> float:
        """For how long it was looked."""
        return self._last_at - self._first_at

    def figures(self) -> tuple[Figures, ...]:
        """Return what is known so far, those first that most was seen of."""
        holds = self._ended + [(name, one, None) for (name, _), one in self._holding.items()]
        # Those first whose ttl is known: of the others it is most likely the same.
        holds.sort(key=lambda one: one[1].ttl is None)
        tallies: dict[str, dict[float, Tally]] = {}
        longest: dict[str, float] = {}
        for name, sighting, by in holds:
            pattern = pattern_of(name)
            tally = self._tally(tallies.setdefault(pattern, {}), name, sighting)
            if by is None:
                longest[pattern] = max(longest.get(pattern, 0.0), sighting.last_age)
            elif sighting.is_unrenewed and sighting.has_run_out(by=by):
                tally.lost("expired")
            else:
                tally.released(name, sighting.ended(by=by))
        for name, waited in self._waits:
            for tally in tallies.get(pattern_of(name), {}).values():
                tally.waits.add(waited)
        found = [
            self._finished(tally, longest.get(pattern, 0.0))
            for pattern, by_ttl in tallies.items()
            for tally in by_ttl.values()
        ]
        return tuple(sorted(found, key=lambda one: (-one.holds.count, one.pattern, one.ttl)))

    def _tally(self, known: dict[float, Tally], name: str, sighting: Sighting) -> Tally:
        ttl = _ttl(sighting, known)
        tally = known.get(ttl)
        if tally is None:
            kind = self._names[name].kind
            tally = known[ttl] = Tally(pattern_of(name), ttl=ttl, renews=True, kind=kind)
        if sighting.is_unrenewed:
            tally.renews = False
        if sighting.renewals and sighting.least_left is not None:
            tally.renewed(sighting.least_left)
            tally.renewals += sighting.renewals - 1
            tally.at_risk += sighting.least_left < ttl * BY_TTL.at_risk_for
        return tally

    def _finished(self, tally: Tally, longest: float) -> Figures:
        figures = tally.figures(seconds=self.seconds, source="looks")
        names = {
            name: one
            for name, one in self._names.items()
            if one.waited_for and pattern_of(name) == tally.pattern
        }
        busiest = max(names, key=lambda one: names[one].in_line, default=None)
        usual = tally.ttl * (1 - BY_TTL.renewed_after)
        return replace(
            figures,
            # One that goes on is not counted, but explains for how long others wait.
            holds=replace(figures.holds, longest=max(figures.holds.longest, longest)),
            usual_margin=None if figures.least_margin is None else usual,
            interval=self.seconds / max(1, self.looks - 1),
            busiest=(
                names[busiest].as_busiest(busiest, looks=self.looks)
                if busiest is not None
                else None
            ),
        )


def _ttl(sighting: Sighting, known: Iterable[float]) -> float:
    """Return the ttl, to a tenth of a second; 0 where nobody can know."""
    if sighting.ttl is not None:
        # A busy store may tell age and time left a moment apart.
        alike = [one for one in known if abs(one - sighting.ttl) <= max(0.1, one * ALIKE)]
        return alike[0] if alike else round(sighting.ttl, 1)
    longer = [one for one in known if one >= sighting.most_left - SLACK]
    if longer:
        return min(longer)
    return 0.0 if sighting.in_window else float(round(sighting.most_left))


def _seen(known: Sighting | None, *, at: float, age: float, left: float | None) -> Sighting:
    if known is None:
        return Sighting(at=at, age=age, left=left)
    known.again(at=at, age=age, left=left)
    return known


def _identity(holder: Holder) -> object:
    # Whoever asks again has the same owner, and another token; some stores have no tokens.
    return holder.owner.to_text() if holder.token is None else holder.token
