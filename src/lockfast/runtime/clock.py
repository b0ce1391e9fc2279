"""The local clock, which keeps running while the machine sleeps."""

from __future__ import annotations

import random

from lockfast.platforms import here


class Clock:
    """The platform's clock that also counts the time while the machine sleeps.

    With a clock that stops in suspend, a holder that slept for an hour would still trust its lease.
    Timers stop in suspend whatever the clock, so no sleep is longer than `longest_sleep`. No clock
    in a virtual machine notices that the hypervisor paused the machine.
    """

    longest_sleep: float = 1.0

    now: staticmethod[[], float] = staticmethod(here.now)
    """Return the time on this clock, in seconds. It is a bare C function, because it is called a
    dozen times per lock."""

    def jitter(self) -> float:
        """Return a random number in [0, 1), to spread out actions that would otherwise coincide."""
        return random.random()  # noqa: S311 - never decides who owns what
