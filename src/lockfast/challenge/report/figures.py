"""What a run came to in figures: how often the lock changed hands, and what each fault cost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from lockfast.challenge.checker.holds import definite_holds
from lockfast.challenge.report.rows import legible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast.challenge.history import Operation
    from lockfast.challenge.outcome import Outcome, Strike


@dataclass(frozen=True, slots=True)
class Cost:
    """What one strike cost."""

    strike: Strike
    grants: int
    """While it lasted."""
    unavailable: float
    """The longest time, at least partly in it, that somebody waited and nobody was inside."""
    recovered: float | None
    """From its stop to the next grant; None if there was none any more."""


@dataclass(frozen=True, slots=True)
class CostOfKind:
    """What the strikes of one kind cost."""

    kind: str
    strikes: int
    seconds: float
    grants: int
    unavailable: float
    """The longest."""
    recovered: float | None
    """The median of those that were followed by a grant."""
    recovered_last: float | None
    """The longest; None if after one of them nothing was granted any more."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What was counted; seconds are floats."""

    seconds: float
    operations: int
    grants: int
    hand_overs: int
    """Grants of a name to another client than the one before."""
    hand_overs_per_second: float
    longest_wait: float
    median_wait: float
    refused: int
    unanswered: int
    """Acquires of which nobody knows what became."""
    told_to_stop: int
    """Checks and releases that said: it is over."""
    writes: int
    turned_away: int
    """Writes that the token check refused."""
    lost_updates: int
    overlaps: int
    """Two inside at once, which no page excuses."""
    unfenced_overlaps: int
    """Two inside at once, where the store's own page says that it may happen."""
    costs: tuple[Cost, ...]

    @property
    def by_kind(self) -> list[CostOfKind]:
        """What the faults cost, in the order in which each kind first struck."""
        of_kind: defaultdict[str, list[Cost]] = defaultdict(list)
        for one in self.costs:
            of_kind[one.strike.kind].append(one)
        return [_of_kind(kind, each) for kind, each in of_kind.items()]


def figures(outcome: Outcome) -> Figures:
    """Count what happened in a run."""
    done = legible(outcome.events)
    acquires = [one for one in done if one.act == "acquire"]
    granted = sorted((one for one in acquires if one.is_ok), key=_answered)
    waits = [_answered(one) - one.invoked for one in granted]
    seconds = max(outcome.ended - outcome.began, 0.0)
    handed = _hand_overs(granted)
    gaps = _gaps(done)
    times = [_answered(one) for one in granted]
    overlaps = [one.is_documented for one in outcome.findings if one.kind == "overlap"]
    return Figures(
        seconds=seconds,
        operations=len(done),
        grants=len(granted),
        hand_overs=handed,
        hand_overs_per_second=handed / seconds if seconds else 0.0,
        longest_wait=max(waits, default=0.0),
        median_wait=median(waits) if waits else 0.0,
        refused=sum(one.answered is not None and not one.is_ok for one in acquires),
        unanswered=sum(one.answered is None for one in acquires),
        told_to_stop=sum(
            one.act != "acquire" and one.answered is not None and not one.is_ok for one in done
        ),
        writes=len(outcome.writes),
        turned_away=sum(not one.is_accepted for one in outcome.writes),
        lost_updates=sum(one.is_lost for one in outcome.writes),
        overlaps=overlaps.count(False),
        unfenced_overlaps=overlaps.count(True),
        costs=tuple(_cost(one, times, gaps) for one in outcome.strikes),
    )


def _answered(one: Operation) -> float:
    return one.invoked if one.answered is None else one.answered


def _hand_overs(granted: Iterable[Operation]) -> int:
    last: dict[str, str] = {}
    count = 0
    for one in granted:
        count += last.get(one.name, one.client) != one.client
        last[one.name] = one.client
    return count


@dataclass(frozen=True, slots=True)
class _Gaps:
    """When somebody waited for one name and nobody was certainly inside, by time."""

    begins: list[float]
    ends: list[float]

    def longest(self, strike: Strike) -> float:
        """Return the longest of which any part was while it struck."""
        first = bisect_left(self.ends, strike.began)
        last = bisect_right(self.begins, strike.ended)
        return max((self.ends[one] - self.begins[one] for one in range(first, last)), default=0.0)


def _gaps(done: Sequence[Operation]) -> list[_Gaps]:
    """Return the gaps of each name.

    Who was never answered is not counted as waiting: it may have been dead.
    """
    changes: defaultdict[str, list[tuple[float, int, int]]] = defaultdict(list)
    for one in done:
        if one.act == "acquire" and one.answered is not None:
            changes[one.name] += [(one.invoked, 1, 0), (one.answered, -1, 0)]
    for hold in definite_holds(done):
        changes[hold.name] += [(hold.granted, 0, 1), (hold.until, 0, -1)]
    return [_gaps_of(sorted(each)) for each in changes.values()]


def _gaps_of(changes: Iterable[tuple[float, int, int]]) -> _Gaps:
    found = _Gaps([], [])
    waiting = inside = 0
    since: float | None = None
    for at, waits, enters in changes:
        waiting, inside = waiting + waits, inside + enters
        if waiting and not inside:
            since = at if since is None else since
        elif since is not None:
            found.begins.append(since)
            found.ends.append(at)
            since = None
    return found


def _cost(strike: Strike, granted: Sequence[float], gaps: Iterable[_Gaps]) -> Cost:
    before = bisect_left(granted, strike.began)
    after = bisect_right(granted, strike.ended)
    return Cost(
        strike=strike,
        grants=after - before,
        unavailable=max((one.longest(strike) for one in gaps), default=0.0),
        recovered=granted[after] - strike.ended if after < len(granted) else None,
    )


def _of_kind(kind: str, costs: Sequence[Cost]) -> CostOfKind:
    known = [one.recovered for one in costs if one.recovered is not None]
    return CostOfKind(
        kind=kind,
        strikes=len(costs),
        seconds=sum(one.strike.ended - one.strike.began for one in costs),
        grants=sum(one.grants for one in costs),
        unavailable=max(one.unavailable for one in costs),
        recovered=median(known) if known else None,
        recovered_last=max(known) if len(known) == len(costs) else None,
    )
