"""SIGTERM ends a worker's loop after its current row, unless the program handles the signal."""

from __future__ import annotations

import os
import signal
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from types import FrameType

SIGNAL_GROUP_SECONDS = 1.0
"""For how long after the first signal further signals count as the same one, in seconds. Some
senders, such as `timeout`, signal the process and then its group.
"""


class Stoppable(Protocol):
    """Something that a signal may stop.

    A signal handler may run at any point, so `stop` must not take a lock.
    """

    def stop(self) -> None:
        """End soon."""


class StopsAtSigterm:
    """Our signal handler for SIGTERM while a loop runs in the main thread.

    A nested loop has its own handler, which also stops the loops around it. Likewise, if a loop was
    left early, the handler of the next loop stops both.
    """

    def __init__(self, loop: Stoppable) -> None:
        self._loop = weakref.ref(loop)
        self._stopped_at: float | None = None
        self._is_set = False
        self.earlier: StopsAtSigterm | None = None
        if threading.current_thread() is not threading.main_thread():
            return
        handler = signal.getsignal(signal.SIGTERM)
        earlier = _ours(handler)
        # If the program has a handler of its own, leave that handler in place.
        if handler is signal.SIG_DFL or earlier is not None:
            if earlier is not None and not earlier.may_still_run():
                earlier = earlier.next_earlier()
            self.earlier = earlier
            self._is_set = True
            signal.signal(signal.SIGTERM, self.handle)

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """Stop every loop that may still run; if no loop does, end the process as by default."""
        one: StopsAtSigterm | None = self
        was_stopped = False
        while one is not None:
            was_stopped = one.stop_loop() or was_stopped
            one = one.next_earlier()
        if not was_stopped:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)

    def stop_loop(self) -> bool:
        """Stop the loop; return False if it is gone, or did not end after an earlier signal."""
        loop, now = self._loop(), time.monotonic()
        if loop is None:
            return False
        if self._stopped_at is None:
            self._stopped_at = now
        loop.stop()
        return now - self._stopped_at < SIGNAL_GROUP_SECONDS

    def may_still_run(self) -> bool:
        """Return whether the handler's loop may still run."""
        return self._is_set and self._loop() is not None

    def next_earlier(self) -> StopsAtSigterm | None:
        """Return the nearest earlier handler whose loop may still run."""
        one = self.earlier
        while one is not None and not one.may_still_run():
            one = one.earlier
        return one

    def undo(self) -> None:
        """Restore the previous handler."""
        if threading.current_thread() is not threading.main_thread():
            # Only the main thread can set a handler. The next signal or loop will find that our
            # loop is gone.
            return
        is_ours = self._is_set and _ours(signal.getsignal(signal.SIGTERM)) is self
        self._is_set = False
        if is_ours:
            earlier = self.next_earlier()
            handler = signal.SIG_DFL if earlier is None else earlier.handle
            signal.signal(signal.SIGTERM, handler)


def _ours(handler: Any) -> StopsAtSigterm | None:  # noqa: ANN401 - any signal handler
    """Return the object to which the handler belongs, if the handler is ours."""
    owner = getattr(handler, "__self__", None)
    return owner if isinstance(owner, StopsAtSigterm) else None
