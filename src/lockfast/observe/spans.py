"""Spans of time, counted in buckets: what was usual and what was rare, in bounded memory."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

SHORTEST: Final = 1e-4
"""The border of the first bucket; nothing that is locked over a network is quicker."""
PER_DOUBLING: Final = 4
"""The next border is 19 % above: a quantile is at most that much too large."""
LAST: Final = 34 * PER_DOUBLING
"""The last bucket: nearly three weeks, and whatever is longer."""

_BORDERS: Final = [SHORTEST * 2 ** (bucket / PER_DOUBLING) for bucket in range(LAST)]
"""The longest span that falls into each bucket but the last."""


@dataclass(frozen=True, slots=True)
class Spread:
    """What many spans of time were like, in seconds; all zero if there were none.

    `median` and `p99` are borders of buckets: half of all, or all but one in a hundred, were at
    most that long.
    """

    count: int = 0
    mean: float = 0.0
    median: float = 0.0
    p99: float = 0.0
    longest: float = 0.0


class Spans:
    """Counts spans of time by fixed buckets, each 19 % wider than the one before."""

    __slots__ = ("_buckets", "count", "longest", "total")

    def __init__(self) -> None:
        self._buckets: dict[int, int] = {}
        self.count: int = 0
        self.total: float = 0.0
        self.longest: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one; what a clock that was set back made negative is nothing."""
        # At every acquire and every release: comparing costs less than to call max().
        if seconds > self.longest:
            self.longest = seconds
        elif seconds < 0.0:
            seconds = 0.0
        buckets = self._buckets
        bucket = bisect_left(_BORDERS, seconds)
        buckets[bucket] = buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += seconds

    def quantile(self, part: float) -> float:
        """Return what this part of all did not exceed; 0 if there were none."""
        left = math.ceil(self.count * part)
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(_BORDERS[bucket], self.longest) if bucket < LAST else self.longest
        return self.longest

    def spread(self) -> Spread:
        """Return what they were like."""
        if not self.count:
            return Spread()
        return Spread(
            count=self.count,
            mean=self.total / self.count,
            median=self.quantile(0.5),
            p99=self.quantile(0.99),
            longest=self.longest,
        )
