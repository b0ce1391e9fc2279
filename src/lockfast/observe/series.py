"""The figures of one pattern of names, as they grow."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lockfast.observe.by_pattern import Labels

DURATIONS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)
"""From a round trip to half an hour, in seconds: holds and waits of all sorts of work."""


class Histogram:
    """How many values were at most so large, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = DURATIONS) -> None:
        self.bounds: Sequence[float] = bounds
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.total: float = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulated(self) -> list[tuple[str, int]]:
        """Return, bound by bound, how many values were not larger."""
        found, so_far = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            so_far += count
            found.append((bound, so_far))
        return found


class Series:
    """What is counted of one pattern, kind and store."""

    __slots__ = (
        "at_risk",
        "held",
        "holds",
        "labels",
        "lost",
        "margins",
        "outcomes",
        "waiters",
        "waits",
    )

    def __init__(self, labels: Labels) -> None:
        self.labels: Labels = labels
        self.outcomes: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.at_risk: int = 0
        self.waits: Histogram = Histogram()
        self.holds: Histogram = Histogram()
        self.margins: Histogram = Histogram()
        self.held: dict[str, str] = {}
        """The claims that hold, by id, and of which client: one that is told twice is one."""
        self.waiters: dict[str, tuple[str, float]] = {}
        """The claims that wait, by id: of which client, since when on the monotonic clock."""

    def forget(self, client: str, *, beside: Collection[str]) -> None:
        """Take no claim of a client to hold or to wait beside these, by id."""
        self.held = {
            one: whose for one, whose in self.held.items() if whose != client or one in beside
        }
        self.waiters = {
            one: known for one, known in self.waiters.items() if known[0] != client or one in beside
        }
