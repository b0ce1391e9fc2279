# Generated from src/holdfast/_async/single_flight.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""One does what several want at the same time, and the others wait for it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from holdfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.runtime.clock import Clock


class Doer:
    """Kept by the frame of whoever does it: when that is gone, somebody else has to."""


class SingleFlight:
    """At most one at a time, and never none who is believed to be there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = runtime.StateLock()
        self._doer: weakref.ref[Doer] | None = None
        self._done: runtime.Event | None = None

    def fly(self, work: Callable[[], None], *, deadline: float) -> bool:
        """Do it, or wait until the one who does it has ended; whether it was done here."""
        me = Doer()
        with self._state:
            is_mine = self._doer is None or self._doer() is None
            if is_mine:
                self._doer, self._done = weakref.ref(me), runtime.Event()
            done = self._done
        if not is_mine:
            if done is not None:
                runtime.wait_for(done, deadline=deadline, clock=self._clock)
            return False
        try:
            work()
        finally:
            self._doer = None
            if done is not None:
                done.set()
        return True
