"""Ctrl-C while a challenge runs: clients and servers end, and what was found until then is told."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Whether somebody asked for the end, and by which signal."""

    def __init__(self) -> None:
        self.by: int | None = None
        self._waits = False

    @property
    def exit_code(self) -> int:
        """What a shell would say of it."""
        return 128 + (self.by or signal.SIGINT)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """Note the first signal in this block instead of raising it: the run ends by itself.

        A second one is raised all the same: whoever presses Ctrl-C twice means it.
        """
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def came(self, number: int, _: FrameType | None) -> None:
        """Take a signal."""
        is_first, self.by = self.by is None, number
        if not (self._waits and is_first):
            raise KeyboardInterrupt


@contextmanager
def stopping() -> Iterator[Stopping]:
    """Take the signals that ask for the end; what stood there before comes back."""
    one = Stopping()
    # What our caller chose to ignore (nohup) stays ignored.
    taken = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, one.came) for number in taken}
    try:
        yield one
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
