"""SIGTERM ends a worker's loop after the row that it works on, unless somebody else handles it."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from types import FrameType

TOGETHER = 1.0
"""Signals so soon after the first are taken for one with it: some senders, such as `timeout`, tell
the process and then its group."""


class Stoppable(Protocol):
    """What a signal may stop. It is told in the middle of anything, so it takes no lock."""

    def stop(self) -> None:
        """Be over soon."""


class StopsAtSigterm:
    """Our handler of the signal, while a loop runs in the main thread.

    A loop inside another, or after one that was left without a word, has a handler of its own,
    which tells the earlier ones too.
    """

    def __init__(self, loop: Stoppable) -> None:
        self._loop = weakref.ref(loop)
        self._told_at: float | None = None
        self._is_set = False
        self.earlier: StopsAtSigterm | None = None
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGTERM)
        earlier = _ours(handler)
        # Somebody else's handler knows better what the program has to do.
        if handler is signal.SIG_DFL or earlier is not None:
            if earlier is not None and not earlier.lives():
                earlier = earlier.next_earlier()
            self.earlier = earlier
            self._is_set = True
            signal.signal(signal.SIGTERM, self.handle)

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """Tell every loop that may still run; without one the process ends, as it always did."""
        one: StopsAtSigterm | None = self
        is_heard = False
        while one is not None:
            is_heard = one.tell() or is_heard
            one = one.next_earlier()
        if not is_heard:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def tell(self) -> bool:
        """Stop the loop; false if there is none, or it was told before and did not end."""
        loop, now = self._loop(), time.monotonic()
        if loop is None:
            return False
        if self._told_at is None:
            self._told_at = now
        loop.stop()
        return now - self._told_at < TOGETHER

    def lives(self) -> bool:
        """Whether its loop may still run."""
        return self._is_set and self._loop() is not None

    def next_earlier(self) -> StopsAtSigterm | None:
        """Return the next earlier one whose loop may still run."""
        one = self.earlier
        while one is not None and not one.lives():
            one = one.earlier
        return one

    def undo(self) -> None:
        """Let the signal do what it did before."""
        if threading.current_thread() is not threading.main_thread():
            return  # only there it can be done: the next signal, or loop, finds that ours is gone
        is_ours = self._is_set and _ours(signal.getsignal(signal.SIGTERM)) is self
        self._is_set = False
        if is_ours:
            earlier = self.next_earlier()
            handler = signal.SIG_DFL if earlier is None else earlier.handle
            signal.signal(signal.SIGTERM, handler)


def _ours(handler: Any) -> StopsAtSigterm | None:  # noqa: ANN401 - anybody's
    """Return whose handler it is, if it is one of these."""
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, StopsAtSigterm) else None
