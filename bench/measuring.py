"""How things are timed: in turns within one run, so that a busy moment hits all of them."""

from __future__ import annotations

import platform
import statistics
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


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


def print_ratios(title: str, seconds: Mapping[str, float], *, ours: str) -> None:
    """Print a table: each one's time, and how ours relates to it."""
    print(f"\n{title}")
    width = max(map(len, seconds))
    for name, each in seconds.items():
        ratio = "" if name == ours else f"   ours is {seconds[ours] / each:5.2f} x"
        print(f"  {name:<{width}}  {each * 1e6:9.1f} µs{ratio}")


def machine() -> str:
    """Return what the figures were measured on."""
    return f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
