"""What a client makes of signals: SIGTERM ends it in order, SIGINT strikes where it is let in."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

PR_SET_PDEATHSIG = 1


class Signals:
    """Made in the main thread, once."""

    def __init__(self) -> None:
        self.is_to_end: bool = False
        self._is_let_in = self._is_once = False
        signal.signal(signal.SIGTERM, self._end)
        signal.signal(signal.SIGINT, self._interrupt)

    @contextmanager
    def let_in(self, *, once: bool = False) -> Iterator[None]:
        """Let SIGINT strike as KeyboardInterrupt while the lock is asked, and while it cleans up.

        Elsewhere it is nothing: what it would spoil there is the client's own diary. Under asyncio
        the first one cancels, and `once` leaves it at that.
        """
        self._is_once = once
        self._is_let_in = True
        try:
            yield
        finally:
            self._is_let_in = False

    def _end(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.is_to_end = True

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._is_let_in:
            self._is_let_in = not self._is_once
            raise KeyboardInterrupt


def die_with(parent: int) -> None:
    """Be killed when the thread that started us ends, however it ends; Linux alone can do that."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it ended before we asked
        os._exit(1)
