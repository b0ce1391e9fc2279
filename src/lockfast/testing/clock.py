"""Clocks that tests control."""

from __future__ import annotations

import asyncio
import random
import selectors
from typing import TYPE_CHECKING, Any

from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Coroutine


POLL_FIRST_SECONDS, POLL_LONGEST_SECONDS = 0.002, 0.02
"""First and longest pause between two checks of a condition, in seconds; the pause grows slowly.
While a test waits for a slow condition, frequent checks would take processor time from the code
under test.
"""


class ManualClock(Clock):
    """A clock that stands still until a test advances it; give it to a client and to its backend.

    Sleeping code checks this clock every few milliseconds of real time, in both flavours.
    """

    longest_sleep: float = 0.005

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now

    def now(self) -> float:
        """Return the time that was set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Advance the time, by any amount, such as an hour for a suspend."""
        self._now += seconds


class VirtualClock(Clock):
    """The clock of a virtual event loop, with a repeatable jitter."""

    def __init__(self, loop: VirtualTimeLoop, *, seed: int = 0) -> None:
        self._loop = loop
        self._random = random.Random(seed)  # noqa: S311 - for repeatable tests

    def now(self) -> float:
        """Return the loop's time."""
        return self._loop.time()

    def jitter(self) -> float:
        """Return the next number of the seeded sequence."""
        return self._random.random()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that does not wait; if all tasks sleep, the time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self._virtual_now = 1000.0

    def time(self) -> float:
        """Return the virtual time."""
        return self._virtual_now

    def jump(self, seconds: float) -> None:
        """Advance the time without running anything, as when the machine is suspended."""
        self._virtual_now += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTimeLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or timeout == 0:
            return events
        if timeout is None:
            raise RuntimeError("every task waits, and no timer is set: this would hang for ever")
        self._loop.jump(max(timeout, 1e-6))
        return events


def run_in_virtual_time(main: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - its own result
    """Run a coroutine on a virtual-time loop; its clock is `VirtualClock(loop)`."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
