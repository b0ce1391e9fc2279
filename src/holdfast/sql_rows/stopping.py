"""SIGTERM ends a worker's loop after the row that it works on, unless somebody else handles it."""

from __future__ import annotations

import os
import signal
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from types import FrameType


class Stoppable(Protocol):
    """What a signal may stop. It is told in the middle of anything, so it takes no lock."""

    def stop(self) -> None:
        """Be over soon."""


class StopsAtSigterm:
    """Our handler of the signal, while a loop runs in the main thread."""

    def __init__(self, loop: Stoppable) -> None:
        self._loop = weakref.ref(loop)
        is_main = threading.current_thread() is threading.main_thread()
        # Somebody else's handler knows better what the program has to do.
        self._is_set = is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._is_set:
            signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        loop = self._loop()
        if loop is not None:
            loop.stop()
            return
        # The loop was left without a word: the signal means what it always did.
        self.undo()
        os.kill(os.getpid(), signal.SIGTERM)

    def undo(self) -> None:
        """Let the signal do what it did before."""
        is_main = threading.current_thread() is threading.main_thread()
        if self._is_set and is_main and signal.getsignal(signal.SIGTERM) == self._handle:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._is_set = False
