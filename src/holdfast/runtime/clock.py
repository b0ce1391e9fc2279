"""The local clock: one that also runs while the machine sleeps."""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


_NOW: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)


class Clock:
    """Now, on the machine's boot clock where there is one.

    CLOCK_MONOTONIC stops in suspend on Linux; a holder that slept an hour would believe
    in its lease. Timers stop in suspend whatever the clock, so no sleep is longer than
    `longest_sleep`. A hypervisor's pause is seen by no clock of the guest.
    """

    longest_sleep: float = 1.0

    now: staticmethod[[], float] = staticmethod(_NOW)
    """Return the seconds on that clock. A bare C function: it is called a dozen times per lock."""

    def jitter(self) -> float:
        """Return a number in [0, 1) that spreads out what would happen together."""
        return random.random()  # noqa: S311 - never decides who owns what
