"""The figures behind the advice: what was seen of the names of one pattern, with one ttl."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from lockfast.core.renewal import left_at_renewal_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

MINUTE, HOUR, DAY = 60, 3600, 86400
# How a time span is shown to people.

MILLISECOND = 0.00095
TENTHS_BELOW = 9.95


def duration(seconds: float) -> str:
    """Return a time span in the two largest units that matter."""
    if 0 < seconds < MILLISECOND:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.0f} s" if seconds >= TENTHS_BELOW else f"{seconds:.1f} s"
    for large, unit, small, rest in ((MINUTE, "min", 1, "s"), (HOUR, "h", MINUTE, "min")):
        if seconds < large * (24 if unit == "h" else 60):
            more = int(seconds % large) // small
            return f"{int(seconds) // large} {unit}" + (f" {more} {rest}" if more else "")
    return f"{int(seconds) // DAY} d {int(seconds % DAY) // HOUR} h"


# Counts of time spans in buckets, which show what is usual and what is rare, in bounded memory.

FIRST_BUCKET_SECONDS: Final = 1e-4
"""Upper bound of the first bucket; no lock over a network takes less time."""
PER_DOUBLING: Final = 4
"""Buckets per doubling. Each bound is 19 % above the previous bound, so a quantile is at most 19 %
too large.
"""
LAST_BUCKET: Final = 34 * PER_DOUBLING
"""Index of the last bucket, for spans of nearly three weeks or more."""

FINE_BUCKETS_SECONDS: Final = tuple(
    FIRST_BUCKET_SECONDS * 2 ** (bucket / PER_DOUBLING) for bucket in range(LAST_BUCKET)
)
"""Upper bound of each bucket except the last, in seconds."""


@dataclass(frozen=True, slots=True)
class DurationSummary:
    """Summary of many time spans, in seconds; all fields are zero if there were no spans.

    `median` and `p99` are bucket bounds: half of all spans, or 99 of 100, were at most that long.
    """

    count: int = 0
    mean: float = 0.0
    median: float = 0.0
    p99: float = 0.0
    longest: float = 0.0


class DurationHistogram:
    """Counts time spans by bucket; `bounds` are the upper bounds of all buckets but the last."""

    __slots__ = ("_bounds", "_buckets", "count", "longest", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._buckets: dict[int, int] = {}
        self.count: int = 0
        self.total: float = 0.0
        self.longest: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one span; a negative span, measured while a clock was set back, counts as 0."""
        # Every acquire and release runs this code, and comparisons cost less than calls of max().
        if seconds < 0.0:  # noqa: PLR1730
            seconds = 0.0
        if seconds > self.longest:  # noqa: PLR1730
            self.longest = seconds
        buckets = self._buckets
        bucket = bisect_left(self._bounds, seconds)
        buckets[bucket] = buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += seconds

    def cumulative(self) -> list[int]:
        """Return, for each bound, how many spans do not exceed it; the total comes last."""
        buckets = range(len(self._bounds) + 1)
        return list(accumulate(self._buckets.get(bucket, 0) for bucket in buckets))

    def quantile(self, part: float) -> float:
        """Return the duration that this fraction of spans did not exceed; 0 without any spans."""
        bounds, left = self._bounds, math.ceil(self.count * part)
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(bounds[bucket], self.longest) if bucket < len(bounds) else self.longest
        return self.longest

    def spread(self) -> DurationSummary:
        """Return a summary of the spans counted so far."""
        if not self.count:
            return DurationSummary()
        return DurationSummary(
            count=self.count,
            mean=self.total / self.count,
            median=self.quantile(0.5),
            p99=self.quantile(0.99),
            longest=self.longest,
        )


FigureSource: TypeAlias = Literal["events", "looks"]
"""The source of figures: the events of each lease, or samples of the store ("looks"). Sampling sees
a short hold only by chance, and measures a hold only to within one sampling interval.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busiest:
    """The name of the pattern for which clients waited longest, in total."""

    name: str
    acquired: int = 0
    stood_in_line: int = 0
    """The number of acquires that had to wait."""
    mean_wait: float = 0.0
    """Mean over all acquires, including those that did not wait, in seconds."""
    mean_hold: float = 0.0
    line: float = 0.0
    """Mean number of claims waiting at a time; known only from sampling."""
    in_use: float = 0.0
    """Fraction of all samples in which the name was held; known only from sampling."""

    @property
    def holds_ahead(self) -> float:
        """The number of holds for which a waiter waits, one after another."""
        if self.line:
            return self.line
        return self.mean_wait / self.mean_hold if self.mean_hold else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Figures for one pattern of names and one ttl, with or without renewal, over `seconds`."""

    pattern: str
    ttl: float
    """The ttl; 0 if it is not known, as when sampling a store with sessions."""
    renews: bool
    source: FigureSource = "events"
    seconds: float = 0.0
    kind: str = "lock"
    holds: DurationSummary = field(default_factory=DurationSummary)
    """Holds that were ended by their holders."""
    waits: DurationSummary = field(default_factory=DurationSummary)
    """Waits of all acquires, including those that did not wait."""
    losses: tuple[tuple[str, int], ...] = ()
    """The number of lost leases, by reason."""
    timeouts: int = 0
    renewals: int = 0
    at_risk: int = 0
    least_margin: float | None = None
    """Least time left at a renewal, in seconds; None if no renewal was seen."""
    usual_margin: float | None = None
    """Time left at a renewal when all is well, in seconds."""
    busiest: Busiest | None = None
    """The name with the longest waits; None if nobody waited."""
    interval: float = 0.0
    """Time between two samples, in seconds."""

    def lost(self, reason: str) -> int:
        """Return how many leases were lost for that reason."""
        return dict(self.losses).get(reason, 0)

    @property
    def exceeded(self) -> int:
        """How many leases without renewal were held beyond their ttl."""
        return 0 if self.renews else self.lost("expired")

    @property
    def ended(self) -> int:
        """The number of holds that were timed, or outlasted their ttl."""
        return self.holds.count + self.exceeded

    @property
    def latest_renewal(self) -> float | None:
        """By how much the latest renewal was late, in seconds; None if no renewal was seen."""
        if self.least_margin is None or self.usual_margin is None:
            return None
        return max(0.0, self.usual_margin - self.least_margin)

    @property
    def waited_for_dead_holder(self) -> bool:
        """Whether a wait of half a ttl or more that no hold explains suggests a dead holder."""
        longest = self.waits.longest
        return longest >= self.ttl / 2 and longest > self.holds.longest * 3


# Counts for the leases of one pattern that have one ttl, in bounded memory.

NAMES_PER_PATTERN: Final = 32
"""Maximum number of names per pattern that are counted separately; the others are only counted
together.
"""


class NameTally:
    """Counts for one name."""

    __slots__ = ("acquired", "held", "released", "stood_in_line", "waited")

    def __init__(self) -> None:
        self.acquired: int = 0
        self.stood_in_line: int = 0
        self.released: int = 0
        self.waited: float = 0.0
        self.held: float = 0.0

    def as_busiest(self, name: str) -> Busiest:
        """Return these counts as a `Busiest`."""
        return Busiest(
            name=name,
            acquired=self.acquired,
            stood_in_line=self.stood_in_line,
            mean_wait=self.waited / self.acquired if self.acquired else 0.0,
            mean_hold=self.held / self.released if self.released else 0.0,
        )


class Tally:
    """Counts for one pattern and ttl, with or without renewal."""

    def __init__(self, pattern: str, *, ttl: float, renews: bool, kind: str = "lock") -> None:
        self.pattern: str = pattern
        self.ttl: float = ttl
        self.renews: bool = renews
        self.kind: str = kind
        self.holds: DurationHistogram = DurationHistogram(FINE_BUCKETS_SECONDS)
        self.waits: DurationHistogram = DurationHistogram(FINE_BUCKETS_SECONDS)
        self.timeouts: int = 0
        self.renewals: int = 0
        self.at_risk: int = 0
        self._losses: dict[str, int] = {}
        self._least_margin: float | None = None
        self._most_margin = 0.0
        self._names: dict[str, NameTally] = {}

    def acquired(self, name: str, waited: float, *, stood_in_line: bool) -> None:
        """Count an acquire that took `waited` seconds."""
        self.waits.add(waited)
        one = self._names.get(name) or self._room_for(name, is_waited_for=stood_in_line)
        if one is not None:
            one.acquired += 1
            one.waited += waited
            one.stood_in_line += stood_in_line

    def released(self, name: str, held: float) -> None:
        """Count a hold that its holder ended after `held` seconds."""
        self.holds.add(held)
        one = self._names.get(name)
        if one is not None:
            one.released += 1
            one.held += held

    def lost(self, reason: str) -> None:
        """Count a lost lease."""
        self._losses[reason] = self._losses.get(reason, 0) + 1

    def renewed(self, margin: float) -> None:
        """Count a renewal that was answered with `margin` seconds left."""
        self.renewals += 1
        if self._least_margin is None or margin < self._least_margin:
            self._least_margin = margin
        self._most_margin = max(self._most_margin, margin)

    def _room_for(self, name: str, *, is_waited_for: bool) -> NameTally | None:
        names = self._names
        if len(names) >= NAMES_PER_PATTERN:
            if not is_waited_for:
                return None
            del names[min(names, key=lambda one: names[one].waited)]
        names[name] = one = NameTally()
        return one

    def figures(self, *, seconds: float, source: FigureSource = "events") -> Figures:
        """Return the figures so far."""
        names = {name: one for name, one in self._names.items() if one.stood_in_line}
        busiest = max(names, key=lambda one: names[one].waited, default=None)
        # Only a manual renewal is earlier than the schedule; in some stores, renewals are later.
        usual = min(self._most_margin, left_at_renewal_seconds(self.ttl))
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
