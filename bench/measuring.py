"""Times contestants in turns within one run, so that a busy moment affects all of them."""

from __future__ import annotations

import os
import platform
import statistics
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.reporting import Report


@dataclass
class Timing:
    """Seconds per cycle of one contestant, round by round: wall clock and processor time."""

    passed: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Return the median wall-clock time."""
        return statistics.median(self.passed)

    @property
    def cpu(self) -> float:
        """Return the median processor time of this process."""
        return statistics.median(self.worked)

    def over(self, other: Timing) -> float:
        """Return the median over all rounds of our time divided by that of `other`.

        The two times of a round are compared because a busy moment affects both of them.
        """
        pairs = zip(self.passed, other.passed, strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)


def timed(
    contestants: Mapping[str, Callable[[int], None]], *, rounds: int, cycles: int
) -> dict[str, Timing]:
    """Return the timing of each contestant; every round runs all contestants, in turn."""
    for run in contestants.values():
        run(max(1, cycles // 10))  # connect and fill caches
    timings = {name: Timing() for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            started, worked = time.perf_counter(), time.process_time()
            run(cycles)
            timings[name].passed.append((time.perf_counter() - started) / cycles)
            timings[name].worked.append((time.process_time() - worked) / cycles)
    return timings


def side_by_side(
    contestants: Mapping[str, Callable[[int], None]], *, rounds: int, cycles: int
) -> dict[str, float]:
    """Return each contestant's median seconds per cycle; every round runs all contestants."""
    timings = timed(contestants, rounds=rounds, cycles=cycles)
    return {name: each.seconds for name, each in timings.items()}


def cycle_of(lock: AbstractContextManager[object]) -> Callable[[int], None]:
    """Return a function that acquires and releases the lock this many times."""

    def run(cycles: int) -> None:
        for _ in range(cycles):
            with lock:
                pass

    return run


def report_ratios(report: Report, title: str, seconds: Mapping[str, float], *, ours: str) -> None:
    """Report the time of each contestant, and the ratio of our time to it."""
    rows = [
        [name, f"{each * 1e6:.1f}", "" if name == ours else f"{seconds[ours] / each:.2f} x"]
        for name, each in seconds.items()
    ]
    report.table(title, ["", "µs", "ours is"], rows)


def load() -> str:
    """Return how busy the machine is: on a busy machine, figures are larger and less stable."""
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def machine() -> str:
    """Return the platform that the figures were measured on."""
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
