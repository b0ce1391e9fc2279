"""One writer of a file at a time inside this process, so that its clients do not poll each other.

SQLite makes a writer try again and again while another one writes. Between processes there is
no other way; fifty clients of one process would spend more time on trying than on writing. The
gate is only manners: SQLite excludes, and whoever finds the gate shut for too long goes past it.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lockfast.backends.sqlite.connection import Connection
    from lockfast.runtime.clock import Clock

T = TypeVar("T")

LEAST = 0.25
"""So long a call waits for its turn also if its own time was spent in its client's queue."""


class Inside(threading.local):
    """What a thread is in the middle of."""

    connection: Connection | None = None
    """Whose transaction, or whose opening of the file."""


class Gate:
    """Of one file in one process; may be passed again by the thread that is inside.

    A finalizer or a signal handler may strike in the middle of a transaction, and use any client
    of the file. It cannot wait for the transaction, which cannot go on before it has returned.
    So what a thread is in the middle of is known here, to all clients of the file.
    """

    def __init__(self) -> None:
        self.mutex: threading.RLock = threading.RLock()
        self.inside: Inside = Inside()

    def pass_through(self, work: Callable[[], T], deadline: float, clock: Clock) -> T:
        """Return what the work returns, alone if that can be had before the deadline."""
        try:
            # Inside the block, since an interrupt may strike right after it. Releasing asks
            # the mutex itself whether it is ours.
            if not self.mutex.acquire(blocking=False):
                self.mutex.acquire(timeout=max(LEAST, deadline - clock.now()))
            answer = work()
        finally:
            # The release is the first call here: after another one an interrupt could strike.
            try:  # noqa: SIM105
                self.mutex.release()
            except RuntimeError:
                pass  # it was not to be had
        return answer


# Module state, because a file is all that two clients have in common. By process too: what a
# fork copied may be shut for ever.
_gates: weakref.WeakValueDictionary[tuple[int, Path], Gate] = weakref.WeakValueDictionary()


def gate_of(path: Path) -> Gate:
    """Return the gate of the file at this real path."""
    key = (os.getpid(), path)
    gate = _gates.get(key)
    if gate is None:
        # Two that are made at once are no harm.
        gate = _gates[key] = Gate()
    return gate
