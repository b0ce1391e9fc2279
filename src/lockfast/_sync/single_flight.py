# Generated from src/lockfast/_async/single_flight.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""One does what several want at the same time, and the others wait for it.

In asyncio a task of its own does it: whoever asked for it may be cancelled, and the others still
get what they wait for. In threads whoever asks first does it; where an interrupt ends that one,
another of those who wait does.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from lockfast.runtime import forking
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.runtime.clock import Clock

T = TypeVar("T")

LAST_WORD = 1.0
"""So much longer than work that keeps its deadline one may wait for it: why it failed says more
than that the time is up."""


class Flight(Generic[T]):
    """The work while it is done, and what became of it."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.ended = runtime.Event()
        self.task: runtime.Task | None = None
        self.is_known = False
        self.is_cut_off = False
        self.value: T | None = None
        self.error: Exception | None = None


class Doer(Generic[T]):
    """Kept by the frames of whoever does it: when they are gone, nobody does."""

    def __init__(self, deadline: float) -> None:
        self.flight = Flight[T](deadline)

    def __del__(self) -> None:
        # Not there where an interrupt struck its making.
        flight = getattr(self, "flight", None)
        if flight is not None and not flight.ended.is_set():
            flight.ended.set()


class Outcome(Generic[T]):
    """What one of those who asked knows of it."""

    def __init__(self, flight: Flight[T], *, was_ours: bool) -> None:
        self._flight = flight
        self.was_ours = was_ours
        """Whether it was begun for this one."""
        self.is_known = flight.is_known
        """Whether it has ended by itself, and in time."""
        self.is_cut_off = flight.is_cut_off
        """Whether somebody has put an end to it."""

    @property
    def has_failed(self) -> bool:
        """Whether the work is known to have raised something."""
        return self.is_known and self._flight.error is not None

    def result(self) -> T:
        """Return what the work returned, or raise what it raised; ask only if that is known."""
        error = self._flight.error
        if error is None:
            return cast("T", self._flight.value)
        if self.was_ours:
            raise error
        # One object that is raised in many places would carry the tracebacks of all.
        raise copy.copy(error) from error


class SingleFlight(Generic[T]):
    """At most one at a time, and never none who is believed to be there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = runtime.StateLock()
        self._flight: Flight[T] | None = None

    def fly(self, work: Callable[[], T], *, deadline: float) -> Outcome[T]:
        """Do it, or join the one who does; return when it has ended, or at the deadline.

        A failure is part of the outcome. The work has to keep a deadline by itself.
        """
        while True:
            doer = Doer[T](deadline)
            with self._state:
                flight = self._flight
                was_ours = flight is None or flight.ended.is_set()
                if flight is None or was_ours:
                    flight = self._flight = doer.flight
            if was_ours:
                flight.task = runtime.undertake(
                    partial(_do, doer, work), name="lockfast-flight", ended=flight.ended
                )
            del doer  # from here on it belongs to the work alone
            runtime.wait_for(flight.ended, deadline=deadline, clock=self._clock)
            self._forget(flight)
            is_left = flight.ended.is_set() and not (flight.is_known or flight.is_cut_off)
            if not is_left or self._clock.now() >= deadline:
                return Outcome(flight, was_ours=was_ours)

    def _forget(self, flight: Flight[T]) -> None:
        # What it returned or raised is its askers' alone, and may be large.
        with self._state:
            if self._flight is flight and flight.ended.is_set():
                self._flight = None

    def end(self) -> None:
        """Put an end to what is under way; where a thread does it, wait until it is done."""
        flight = self._flight
        if flight is None or flight.ended.is_set():
            return
        flight.is_cut_off = True
        if flight.task is None:
            # Not for ever: a signal handler may close in the middle of its own thread's work.
            runtime.wait_for(flight.ended, deadline=flight.deadline, clock=self._clock)
        else:
            flight.task.cancel()
            flight.task.join()

    def after_fork_in_child(self) -> None:
        """Leave what is under way to the parent: nobody does it here."""
        forking.leak(self._flight)
        self._state, self._flight = runtime.StateLock(), None


def _do(doer: Doer[T], work: Callable[[], T]) -> None:
    flight = doer.flight
    try:
        flight.value = work()
        flight.is_known = True
    except Exception as error:  # noqa: BLE001 - it is raised where the result is asked for
        flight.error, flight.is_known = error, True
