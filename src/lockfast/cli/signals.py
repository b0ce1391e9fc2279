"""Signals that are sent to `lockfast run`: they end its waiting, or go on to the command."""

from __future__ import annotations

import os
import select
import signal
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import FrameType, TracebackType

FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class Signalled(BaseException):
    """A signal came while we waited; `number` is which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """What was sent to us since we last looked, and a way to wait for it.

    First a signal is raised, so that the wait for the lock ends and leaves nothing behind;
    after `hold_back` it is kept until it can be forwarded. Python swallows what is raised inside
    a finalizer, so the wait is given this object too, and ends by `is_set` where that happened.
    """

    def __init__(self) -> None:
        self.came: deque[int] = deque()
        self._raises = True
        self._raised: int | None = None
        self._before: dict[int, object] = {}
        self._ear, self._bell = os.pipe()
        self._poll = select.poll()

    def __enter__(self) -> Self:
        for end in (self._ear, self._bell):
            os.set_blocking(end, False)
        self._poll.register(self._ear, select.POLLIN)
        signal.set_wakeup_fd(self._bell, warn_on_full_buffer=False)
        for number in FORWARDED:
            # What our caller ignores (nohup, a job in the background) stays ignored.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        # Does nothing, but lets the end of the command ring the bell.
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(-1)
        os.close(self._ear)
        os.close(self._bell)

    def hold_back(self) -> None:
        """Keep what comes from now on, instead of raising it."""
        self._raises = False

    def is_set(self) -> bool:
        """Whether a signal was raised, which ends the wait for the lock."""
        return self._raised is not None

    def raise_again(self) -> None:
        """Raise the signal that ended the wait, if one did."""
        if self._raised is not None:
            raise Signalled(self._raised)

    def ring(self, _event: object = None) -> None:
        """Let `wait` return; may be called from any thread."""
        # A full pipe rings as well as a fuller one; a closed one has nobody to wake.
        with suppress(BlockingIOError, OSError):
            os.write(self._bell, b"\0")

    def wait(self, seconds: float) -> None:
        """Return when a signal or a ring came, or the time is over."""
        if self._poll.poll(max(0.0, seconds) * 1000):
            with suppress(BlockingIOError):
                while os.read(self._ear, 4096):
                    pass

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self._raises:
            # Once: the withdrawal from the line must not be interrupted in its turn.
            self._raises, self._raised = False, number
            raise Signalled(number)
        self.came.append(number)
