"""Clocks that tests hold in their hands."""

from __future__ import annotations

import asyncio
import random
import selectors
from typing import TYPE_CHECKING, Any

from lockfast.runtime.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Coroutine


SOON, LATER = 0.002, 0.02
"""So long after a look of the contract comes the next, in seconds; each look is a little later than
the one before. What takes long is not asked a thousand times: the processor is the subject's."""


class ManualClock(Clock):
    """Stands still until it is advanced; give it to a client and to its backend.

    Whoever sleeps looks at it every few milliseconds of real time, in both flavours.
    """

    longest_sleep: float = 0.005

    def __init__(self, now: float = 1000.0) -> None:
        self._now = now

    def now(self) -> float:
        """Return the time that was set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Let time pass; as after a suspend, it may be an hour in one step."""
        self._now += seconds


class VirtualClock(Clock):
    """The time of a virtual event loop, and a jitter that repeats itself."""

    def __init__(self, loop: VirtualTimeLoop, *, seed: int = 0) -> None:
        self._loop = loop
        self._random = random.Random(seed)  # noqa: S311 - a test must be repeatable

    def now(self) -> float:
        """Return the loop's time."""
        return self._loop.time()

    def jitter(self) -> float:
        """Return the next number of the seeded sequence."""
        return self._random.random()


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that does not wait: when all tasks sleep, it jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self._virtual_now = 1000.0

    def time(self) -> float:
        """Return the virtual time."""
        return self._virtual_now

    def jump(self, seconds: float) -> None:
        """Let time pass without running anything: a suspend."""
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
    """Run a coroutine on a virtual-time loop; VirtualClock(loop) is its clock."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)
