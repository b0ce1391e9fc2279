"""The local clock: one that also runs while the machine sleeps."""

from __future__ import annotations

import random
import time


class Clock:
    """Now, on the machine's boot clock where there is one.

    CLOCK_MONOTONIC stops in suspend on Linux; a holder that slept an hour would believe
    in its lease. Timers stop in suspend whatever the clock, so no sleep is longer than
    `longest_sleep`. A hypervisor's pause is seen by no clock of the guest.
    """

    longest_sleep: float = 1.0

    if hasattr(time, "CLOCK_BOOTTIME"):

        def now(self) -> float:
            """Return seconds since the machine booted."""
            return time.clock_gettime(time.CLOCK_BOOTTIME)

    else:

        def now(self) -> float:
            """Return seconds on the monotonic clock."""
            return time.monotonic()

    def jitter(self) -> float:
        """Return a number in [0, 1) that spreads out what would happen together."""
        return random.random()  # noqa: S311 - never decides who owns what
