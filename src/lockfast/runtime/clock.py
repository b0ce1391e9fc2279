"""The local clock, which keeps running while the machine sleeps."""

from __future__ import annotations

import random

from lockfast.platforms import here


class Clock:
    """The platform's clock that also counts the time while the machine sleeps.

    With a clock that stops while the machine sleeps, a holder would still trust its lease after an
    hour of sleep. Timers always stop while the machine sleeps, so no wait is longer than
    `longest_sleep`. In a virtual machine, no clock counts the time for which the hypervisor paused
    the machine.
    """

    longest_sleep: float = 1.0

    now: staticmethod[[], float] = staticmethod(here.now)
    """Return the time on this clock, in seconds. This is a bare C function, because it is called a
    dozen times for each lock.
    """

    def jitter(self) -> float:
        """Return a random number in [0, 1), to spread out actions that would otherwise coincide."""
        return random.random()  # noqa: S311 - no ownership depends on it
