"""How things are timed: in turns within one run, so that a busy moment hits all of them."""

from __future__ import annotations

import platform
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.reporting import Report


def side_by_side(
    contestants: Mapping[str, Callable[[int], None]], *, rounds: int, cycles: int
) -> dict[str, float]:
    """Return the median seconds per cycle of each; every round runs all of them."""
    for run in contestants.values():
        run(max(1, cycles // 10))  # connect, fill caches
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            started = time.perf_counter()
            run(cycles)
            times[name].append((time.perf_counter() - started) / cycles)
    return {name: statistics.median(each) for name, each in times.items()}


def tell_ratios(report: Report, title: str, seconds: Mapping[str, float], *, ours: str) -> None:
    """Tell each one's time, and how ours relates to it."""
    rows = [
        [name, f"{each * 1e6:.1f}", "" if name == ours else f"{seconds[ours] / each:.2f} x"]
        for name, each in seconds.items()
    ]
    report.table(title, ["", "µs", "ours is"], rows)


def machine() -> str:
    """Return what the figures were measured on."""
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
