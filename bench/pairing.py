"""Small differences, told from noise: two at a time in short turns, and how sure the ratio is.

A machine is slower at one moment and quicker at another, by more than the difference in question.
Two that run right after each other find it in the same mood, so each such pair gives a ratio. The
median of many is steady, and their ranks say in which range it lies, however they are distributed.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Contestant:
    """What is timed."""

    run: Callable[[int], None]
    """So many cycles, with all that they cause."""
    rest: Callable[[], None] = lambda: None
    """Wait until nothing of it is under way that would be felt by the next; not timed."""


@dataclass
class Ratios:
    """What one took over what the other took, pair by pair."""

    found: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Return the ratio."""
        return statistics.median(self.found)

    @property
    def between(self) -> tuple[float, float]:
        """Return bounds that hold the true median in 19 of 20 runs."""
        ranked, number = sorted(self.found), len(self.found)
        beside = math.ceil(0.98 * math.sqrt(number))  # 1.96 deviations of a coin thrown so often
        middle = (number - 1) / 2
        lowest, highest = math.floor(middle - beside), math.ceil(middle + beside)
        return ranked[max(0, lowest)], ranked[min(number - 1, highest)]

    def times(self) -> str:
        """Return it as how many times the other one is as quick."""
        lowest, highest = self.between
        return f"{self.median:.1f} x ({lowest:.1f} to {highest:.1f})"

    def __str__(self) -> str:
        lowest, highest = self.between
        return f"{self.median:.3f} ({lowest:.3f} to {highest:.3f})"


@dataclass
class Paired:
    """One beside the other, by the clock and of the processor, and the seconds per cycle."""

    passed: Ratios = field(default_factory=Ratios)
    worked: Ratios = field(default_factory=Ratios)
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)
    """The seconds of the other."""


def paired(
    one: Contestant, other: Contestant, *, pairs: int, cycles: int, into: Paired | None = None
) -> Paired:
    """Return how one compares to the other; which of them is first changes from pair to pair."""
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
