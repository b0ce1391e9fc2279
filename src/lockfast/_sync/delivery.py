# Generated from src/lockfast/_async/delivery.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""How a hook gets what it is called with: one thing after another, beside whoever tells of it.

A hook is somebody else's code, and may take its time. So it is never called by those who acquire,
release or renew: they leave a note, and one task or thread for each hook calls it, in order. It
is there only while there is something to deliver, and a little longer.
"""

from __future__ import annotations

import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from lockfast.runtime.clock import Clock

T = TypeVar("T")

LIMIT = 10_000
"""As many events may wait for a hook; what comes then is dropped, and said so."""
ROUND = 0.02
"""While much happens, it is delivered so often: to wake a thread for each event costs more than
most hooks."""
IDLE = 30.0
"""With nothing to deliver, the background ends after so long; it starts again when needed."""
RECOUNT = 10.0
"""So often whoever keeps count is told how things stand: what was to be told may have been lost to
an interrupt, which strikes anywhere."""


class Delivery(Generic[T]):
    """Delivers to one hook; told by any thread."""

    def __init__(
        self,
        deliver: Callable[[deque[T]], None],
        *,
        catch_up: Callable[[], None] | None = None,
        what: str,
        logger: logging.Logger,
        home: runtime.LoopGuard,
    ) -> None:
        self._deliver = deliver
        self._catch_up = catch_up
        self._what = what
        self._logger = logger
        self._home = home
        self._state = runtime.StateLock()
        self._pending: deque[T] = deque()
        self._kick: runtime.Event | None = None
        self._ended: runtime.Event | None = None
        self._task: runtime.Lookout | None = None
        self._needs_waking = True
        self._is_stopping = False
        self._is_shut = False
        self._dropped = 0
        self._counted_at = 0.0

    def tell(self, one: T, is_urgent: bool) -> None:  # noqa: FBT001 - at every acquire
        """Have it delivered; waits for nobody."""
        pending = self._pending
        if len(pending) >= LIMIT:
            self._drop()
            return
        pending.append(one)
        if is_urgent or self._needs_waking:
            self._wake()

    def _drop(self) -> None:
        with self._state:
            self._dropped += 1
            is_first = self._dropped == 1
        if is_first:
            self._logger.warning(
                "%s is too slow: %d wait for it, and what happens now it will not hear of",
                self._what,
                LIMIT,
            )

    def _wake(self) -> None:
        with self._state:
            if self._is_shut:
                self._pending.clear()
                return
            if self._task is not None and self._task.is_alive() and self._kick is not None:
                self._kick.set()
                # Once is enough, but only now: a kick that an interrupt cut short woke nobody.
                self._needs_waking = False
                return
            self._home.call(self._start)

    def _start(self) -> None:
        with self._state:
            if self._is_shut or (self._task is not None and self._task.is_alive()):
                return  # another was quicker; it looks before it sleeps
            self._kick, self._ended = kick, ended = runtime.Event(), runtime.Event()
            run = partial(self._run, kick, ended)
            try:
                self._task = runtime.spawn_lookout(run, name="lockfast-hooks")
            except RuntimeError as error:
                # No thread is to be had just now: whoever tells of the next thing tries again.
                self._logger.warning("%s has to wait: %s", self._what, error)

    def _run(self, kick: runtime.Event, ended: runtime.Event) -> None:
        try:
            self._needs_waking = False
            # One whose start was interrupted runs although nobody knows it: another has the kick.
            while kick is self._kick:
                kick.clear()
                if self._pending:
                    self._deliver(self._pending)
                    self._recount(is_due=self._tell_dropped() or self._is_stopping)
                    if not self._is_stopping:
                        kick.wait(ROUND)
                elif not self._slept(kick):
                    return
        finally:
            kick.clear()
            self._needs_waking = True
            ended.set()

    def _slept(self, kick: runtime.Event) -> bool:
        """Sleep until there is something; false if nothing will come, or has come for long."""
        with self._state:  # not while somebody wakes it, who would take it for awake
            self._needs_waking = True
        # After that was said: who told before it woke nobody.
        if self._pending or (not self._is_stopping and kick.wait(IDLE)):
            self._needs_waking = False
            return True
        self._recount(is_due=True)
        with self._state:
            if self._pending or kick is not self._kick:
                return True
            if not self._is_stopping:  # then it is waited for
                self._task = None
            return False

    def _tell_dropped(self) -> bool:
        """Say how much was dropped, if anything was."""
        if not self._dropped:
            return False
        with self._state:
            dropped, self._dropped = self._dropped, 0
        self._logger.warning("%s has not heard of %d events", self._what, dropped)
        return True

    def _recount(self, *, is_due: bool) -> None:
        """Tell whoever keeps count how things stand, if that is due, or was not told for long."""
        now = time.monotonic()
        if self._catch_up is not None and (is_due or now >= self._counted_at + RECOUNT):
            self._counted_at = now
            self._catch_up()

    def begin_stopping(self) -> None:
        """Deliver what waits at once, and end then."""
        self._is_stopping = True
        if self._pending or self._task is not None:
            self._wake()

    def stop(self, *, deadline: float, clock: Clock) -> None:
        """Once it stops: wait for that until the deadline; then deliver nothing any more."""
        if self._pending:
            self._wake()  # told after it had ended
        if runtime.is_background():
            return  # a hook closes its own client: the rest is delivered when it returns
        ended, task = self._ended, self._task
        if task is None or ended is None:
            self._deliver(self._pending)  # no thread is to be had, at an exit say
        elif runtime.wait_for(ended, deadline=deadline, clock=clock):
            task.join()
        # A hook that has not come back by now was called for the last time.
        self._is_shut, self._kick = True, None
        left = len(self._pending)
        self._pending.clear()
        if left:
            self._logger.warning("closed before %s has heard of %d events", self._what, left)

    def after_fork_in_child(self) -> None:
        """Start anew: what waits is told by the parent."""
        self.__init__(  # type: ignore[misc]
            self._deliver,
            catch_up=self._catch_up,
            what=self._what,
            logger=self._logger,
            home=self._home,
        )
