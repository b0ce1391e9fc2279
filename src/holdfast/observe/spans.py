"""Spans of time, counted in buckets: what was usual and what was rare, in bounded memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

SHORTEST: Final = 1e-4
"""The border of the first bucket; nothing that is locked over a network is quicker."""
PER_DOUBLING: Final = 4
"""The next border is 19 % above: a quantile is at most that much too large."""
LAST: Final = 34 * PER_DOUBLING
"""The last bucket: nearly three weeks, and whatever is longer."""


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
        seconds = max(0.0, seconds)
        bucket = bucket_of(seconds)
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
        self.count += 1
        self.total += seconds
        self.longest = max(self.longest, seconds)

    def quantile(self, part: float) -> float:
        """Return what this part of all did not exceed; 0 if there were none."""
        left = math.ceil(self.count * part)
        for bucket in sorted(self._buckets):
            left -= self._buckets[bucket]
            if left <= 0:
                return min(border_of(bucket), self.longest)
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


def bucket_of(seconds: float) -> int:
    """Return the number of the bucket that a span falls into."""
    if seconds <= SHORTEST:
        return 0
    return min(LAST, math.ceil(math.log2(seconds / SHORTEST) * PER_DOUBLING))


def border_of(bucket: int) -> float:
    """Return the longest span that falls into a bucket."""
    return math.inf if bucket == LAST else SHORTEST * 2 ** (bucket / PER_DOUBLING)
