"""The subscription of the sync flavour: one of the threads that wait reads the bell for all.

No mutex guards that seat, because an interrupt could leave it locked. Two who sit in it do no
harm: each datagram is read by one of them, and told to whom it is for. What must not be is
that nobody sits there, so whoever leaves nudges another, and each looks by itself now and then.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING

from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sqlite.doorbell import Doorbell
    from lockfast.runtime.clock import Clock
    from lockfast.runtime.threads import Event

__all__ = ["Subscription"]


class Listener:
    """One thread that waits for one event."""

    __slots__ = ("event", "thread")

    def __init__(self, event: Event) -> None:
        self.event: Event = event
        self.thread: int = get_ident()


class Subscription:
    """Tells which claims were rung for."""

    def __init__(self, bell: Doorbell, hear: Callable[[str], None], *, clock: Clock) -> None:
        self._bell = bell
        self._hear = hear
        self._clock = clock
        self._waiting: dict[Listener, None] = {}
        self._reader: Listener | None = None

    def attend(self, event: Event, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        me = Listener(event)
        try:
            self._waiting[me] = None
            while not event.is_set() and (left := deadline - self._clock.now()) > 0:
                self._wait(me, min(left, self._clock.longest_sleep))
        finally:
            # No call before this is done, so no interrupt can leave the seat to the gone.
            if self._reader is me:
                self._reader = None
            self._waiting.pop(me, None)
            if self._reader is None:
                self._nudge_another()

    def _wait(self, me: Listener, seconds: float) -> None:
        reader = self._reader
        # A handler that waits on the thread of the reader has to read itself.
        is_free = reader is None or reader.thread == me.thread
        number = self._bell.fileno() if is_free else -1
        if number < 0:
            me.event.wait(seconds)
            return
        self._reader = me
        poll = here.Poll()
        poll.register(number, here.READ)
        if poll.poll(seconds * 1000):
            for claim_id in self._bell.heard():
                self._hear(claim_id)

    def _nudge_another(self) -> None:
        for one in list(self._waiting):
            if not one.event.is_set():
                one.event.nudge()
                return

    def nudge(self) -> None:
        """Let the reader see that its event was set by somebody else."""
        reader = self._reader
        if reader is not None and reader.event.is_set():
            self._bell.poke()

    def close(self) -> None:
        """Do nothing: whoever reads has left before the bell is closed."""

    def after_fork_in_child(self) -> None:
        """Begin anew: the threads of the parent are not here."""
        self._waiting.clear()
        self._reader = None
