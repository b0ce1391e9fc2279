"""The local clock: one that also runs while the machine sleeps."""

from __future__ import annotations

import random

from lockfast.platforms import here


class Clock:
    """Now, on the clock of this platform that counts the time in which the machine sleeps.

    By one that stops in suspend, a holder that slept an hour would believe in its lease.
    Timers stop in suspend whatever the clock, so no sleep is longer than `longest_sleep`.
    A hypervisor's pause is seen by no clock of the guest.
    """

    longest_sleep: float = 1.0

    now: staticmethod[[], float] = staticmethod(here.now)
    """Return the seconds on that clock. A bare C function: it is called a dozen times per lock."""

    def jitter(self) -> float:
        """Return a number in [0, 1) that spreads out what would happen together."""
        return random.random()  # noqa: S311 - never decides who owns what
