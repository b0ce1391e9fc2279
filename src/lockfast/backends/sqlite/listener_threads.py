"""Listens to the doorbell, a client's wakeup socket, in threads.

One of the waiting threads, the reader, reads the socket for all waiting threads. No mutex guards
the reader's role, because an interrupt could leave the mutex locked. Two readers do no harm: each
datagram is read once, and wakes the claims that it names. But there must always be a reader, so a
reader that leaves wakes another thread, and each thread also checks on its own now and then.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sqlite.doorbell import Doorbell
    from lockfast.runtime.clock import Clock
    from lockfast.runtime.threads import WakeEvent

__all__ = ["DoorbellListener"]


class WaitingThread:
    """A thread that waits for an event."""

    __slots__ = ("event", "thread")

    def __init__(self, event: WakeEvent) -> None:
        self.event: WakeEvent = event
        self.thread: int = get_ident()


class DoorbellListener:
    """Passes on the wakeups that arrive at the doorbell."""

    def __init__(self, bell: Doorbell, hear: Callable[[str], None], *, clock: Clock) -> None:
        self._bell = bell
        self._hear = hear
        self._clock = clock
        self._waiting: dict[WaitingThread, None] = {}
        self._reader: WaitingThread | None = None

    def wait_for_event(self, event: WakeEvent, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        me = WaitingThread(event)
        try:
            self._waiting[me] = None
            while not event.is_set() and (left := deadline - self._clock.now()) > 0:
                self._wait(me, min(left, self._clock.longest_sleep))
        finally:
            # Give up the reader's role before any call, because an interrupt after a call could
            # leave the role with a thread that is gone.
            if self._reader is me:
                self._reader = None
            self._waiting.pop(me, None)
            if self._reader is None:
                self._nudge_another()

    def _wait(self, me: WaitingThread, seconds: float) -> None:
        reader = self._reader
        # If the reader is interrupted on this very thread by a signal handler that waits too, the
        # handler has to read the socket itself.
        is_free = reader is None or reader.thread == me.thread
        number = self._bell.fileno() if is_free else -1
        if number < 0:
            me.event.wait(seconds)
            return
        self._reader = me
        poll = here.Poll()
        poll.register(number, here.READ)
        if poll.poll(seconds * 1000):
            for claim_id in self._bell.received():
                self._hear(claim_id)

    def _nudge_another(self) -> None:
        for one in list(self._waiting):
            if not one.event.is_set():
                one.event.wake_to_check()
                return

    def wake_to_check(self) -> None:
        """Wake the reader if another thread has set its event."""
        reader = self._reader
        if reader is not None and reader.event.is_set():
            self._bell.wake_reader()

    def close(self) -> None:
        """Do nothing, because the reader has left before the doorbell is closed."""

    def after_fork_in_child(self) -> None:
        """Start over, because the parent's threads do not exist in the child."""
        self._waiting.clear()
        self._reader = None
