"""Measures small differences in speed despite noise, by the ratios of many pairs of short runs.

A machine's speed varies from moment to moment by more than the difference in question. Two runs
right after each other meet the same conditions, so each such pair gives a ratio. The median of many
ratios is stable, and the ranks of the ratios give its confidence interval, whatever their
distribution.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Contestant:
    """Something to time, and how to let it settle after a run."""

    run: Callable[[int], None]
    """Runs the given number of cycles, including all work that the cycles cause."""
    rest: Callable[[], None] = lambda: None
    """Waits, untimed, until nothing that `run` started can still affect the next run."""


@dataclass
class Ratios:
    """The ratio of the two measurements in each pair."""

    found: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the median ratio."""
        return statistics.median(self.found)

    @property
    def between(self) -> tuple[float, float]:
        """Return a 95 % confidence interval of the median."""
        ranked, number = sorted(self.found), len(self.found)
        # 1.96 standard deviations of the number of heads in this many coin tosses
        beside = math.ceil(0.98 * math.sqrt(number))
        middle = (number - 1) / 2
        lowest, highest = math.floor(middle - beside), math.ceil(middle + beside)
        return ranked[max(0, lowest)], ranked[min(number - 1, highest)]

    def times(self) -> str:
        """Return the ratio of two times as text: how many times as fast the second one is."""
        lowest, highest = self.between
        return f"{self.median:.1f} x ({lowest:.1f} to {highest:.1f})"

    def __str__(self) -> str:
        lowest, highest = self.between
        return f"{self.median:.3f} ({lowest:.3f} to {highest:.3f})"


@dataclass
class Paired:
    """Two contestants compared: ratios of wall-clock and processor time, and seconds per cycle."""

    passed: Ratios = field(default_factory=Ratios)
    worked: Ratios = field(default_factory=Ratios)
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    """The seconds per cycle of the second contestant."""


def paired(
    one: Contestant, other: Contestant, *, pairs: int, cycles: int, into: Paired | None = None
) -> Paired:
    """Compare two contestants in pairs of runs; they alternate in going first."""
    found = into or Paired()
    for number in range(pairs):
        if number % 2:
            ours, theirs = _timed(one, cycles), _timed(other, cycles)
        else:
            theirs, ours = _timed(other, cycles), _timed(one, cycles)
        found.passed.found.append(ours[0] / theirs[0])
        found.worked.found.append(ours[1] / theirs[1])
        found.seconds.append(ours[0])
        found.cpu.append(ours[1])
        found.others.append(theirs[0])
    return found


def _timed(one: Contestant, cycles: int) -> tuple[float, float]:
    started, worked = time.perf_counter(), time.process_time()
    one.run(cycles)
    taken = (time.perf_counter() - started) / cycles, (time.process_time() - worked) / cycles
    one.rest()
    return taken
