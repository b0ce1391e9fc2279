"""Callers that need the same work at the same time share one run of that work.

In asyncio the work runs in a task of its own. If the caller that started the work is cancelled, the
other callers still get the result. In threads the first caller does the work; if an interrupt ends
that call, one of the waiting callers takes over.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from lockfast.errors import ConfigurationError
from lockfast.runtime import aio as runtime
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.runtime.clock import Clock

T = TypeVar("T")

FLIGHT_GRACE_SECONDS = 1.0
"""Extra time, in seconds, to wait for work that keeps its own deadline. The error that the work
raises then says more than our timeout would."""


class SharedCall(Generic[T]):
    """One run of the work, and its outcome."""

    def __init__(self, began_at: float, deadline: float) -> None:
        self.began_at = began_at
        self.deadline = deadline
        self.ended = runtime.WakeEvent()
        self.task: runtime.Task | None = None
        self.is_known = False
        self.is_stopped = False
        self.value: T | None = None
        self.error: Exception | None = None


class SharedWork(Generic[T]):
    """Exists exactly as long as the frames that do the work, and so shows when they end."""

    def __init__(self, began_at: float, deadline: float) -> None:
        self.flight = SharedCall[T](began_at, deadline)

    def __del__(self) -> None:
        # `flight` is missing if an interrupt struck `__init__`.
        flight = getattr(self, "flight", None)
        if flight is not None and not flight.ended.is_set():
            flight.ended.set()


class SharedOutcome(Generic[T]):
    """The outcome of a run, as one of its callers sees it."""

    def __init__(self, flight: SharedCall[T], *, was_ours: bool) -> None:
        self._flight = flight
        self.was_ours = was_ours
        """Whether the run was started for this caller."""
        self.is_known = flight.is_known
        """Whether the work itself finished in time, with a result or an error."""
        self.is_stopped = flight.is_stopped
        """Whether the run was stopped from outside."""

    @property
    def has_failed(self) -> bool:
        """Whether the work is known to have raised an error."""
        return self.is_known and self._flight.error is not None

    def result(self) -> T:
        """Return the work's result, or raise its error; call this only if `is_known`."""
        error = self._flight.error
        if error is None:
            return cast("T", self._flight.value)
        if self.was_ours:
            raise error
        # One exception object raised to many callers would collect the tracebacks of all of them.
        raise copy.copy(error) from error


class AsyncSingleFlight(Generic[T]):
    """Allows one run at a time; a run that has died is never mistaken for a live run."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._state = runtime.StateLock()
        self._flight: SharedCall[T] | None = None

    async def run_shared(
        self, work: Callable[[], Awaitable[T]], *, deadline: float
    ) -> SharedOutcome[T]:
        """Do the work, or join the current run; return when the run has ended, or at the deadline.

        An error of the work becomes part of the outcome and is not raised here. The work has to
        keep its own deadline. A run that began before this call and failed says little: it may have
        had less time, and the server may have recovered. So this caller takes part in another run.
        """
        came_at = self._clock.now()
        while True:
            doer = SharedWork[T](self._clock.now(), deadline)
            with self._state:
                flight = self._flight
                was_ours = flight is None or flight.ended.is_set()
                if flight is None or was_ours:
                    flight = self._flight = doer.flight
            if was_ours:
                flight.task = runtime.run_for_all(
                    partial(_do, doer, work), name="lockfast-flight", ended=flight.ended
                )
            del doer  # from here on, only the work refers to this object
            await runtime.wait_for(flight.ended, deadline=deadline, clock=self._clock)
            self._forget(flight)
            is_left = flight.ended.is_set() and not (flight.is_known or flight.is_stopped)
            is_open = is_left or (flight.began_at < came_at and _may_pass(flight.error))
            if not is_open or self._clock.now() >= deadline:
                return SharedOutcome(flight, was_ours=was_ours)

    def _forget(self, flight: SharedCall[T]) -> None:
        # Do not keep the result, which may be large; only the callers need it.
        with self._state:
            if self._flight is flight and flight.ended.is_set():
                self._flight = None

    async def end(self) -> None:
        """Cancel the current run if it is a task; if a thread does the work, wait for its end."""
        flight = self._flight
        if flight is None or flight.ended.is_set():
            return
        flight.is_stopped = True
        if flight.task is None:
            # Wait only until the deadline, because a signal handler may call this on the very
            # thread that does the work.
            await runtime.wait_for(flight.ended, deadline=flight.deadline, clock=self._clock)
        else:
            flight.task.cancel()
            await flight.task.join()

    def after_fork_in_child(self) -> None:
        """Abandon the current run, which only the parent process continues."""
        fork.abandon(self._flight)
        self._state, self._flight = runtime.StateLock(), None


def _may_pass(error: Exception | None) -> bool:
    """Return whether another run may end better."""
    return error is not None and not isinstance(error, ConfigurationError)


async def _do(doer: SharedWork[T], work: Callable[[], Awaitable[T]]) -> None:
    flight = doer.flight
    try:
        flight.value = await work()
        flight.is_known = True
    except Exception as error:  # noqa: BLE001 - the error is raised where the result is asked for
        flight.error, flight.is_known = error, True
