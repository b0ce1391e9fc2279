"""A background job of a client, on which other code relies.

The job ends when no caller needs it, and the next caller that needs it starts it again. A run is
recorded before its task starts. So if an interrupt strikes the caller that starts it, the next
caller finds the run unfinished and starts a new one.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from lockfast.model import FOREVER
from lockfast.runtime import aio as runtime
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.runtime.clock import Clock


class AsyncBackgroundRun:
    """One run of the job; this object exists before the task of the run does."""

    def __init__(self) -> None:
        self.stopping = runtime.WakeEvent()
        self.kicked = runtime.WakeEvent()
        self.ended = runtime.WakeEvent()
        self.has_begun = False
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Whether the task of the run is alive; false too if an interrupt prevented its start."""
        return self.task is not None and self.task.is_alive()


class AsyncBackground:
    """Runs a job; callers rely on the latest run, while older runs may still be ending."""

    def __init__(
        self, work: Callable[[AsyncBackgroundRun], Awaitable[None]], *, name: str, clock: Clock
    ) -> None:
        self._work = work
        self._name = name
        self._clock = clock
        self._state = runtime.StateLock()
        self.current: AsyncBackgroundRun | None = None
        """The run on which callers rely, or None."""
        self._runs: set[AsyncBackgroundRun] = set()

    def is_running(self) -> bool:
        """Start the job unless it is running already; false if the job cannot be started."""
        run = self.current
        if run is not None and run.is_alive():
            return True
        with self._state:
            if self.current is not None and self.current.is_alive():
                return True
            run = self.current = AsyncBackgroundRun()
            self._runs.add(run)
            try:
                run.task = runtime.spawn(partial(self._keep_on, run), name=self._name)
            except RuntimeError as error:
                _log.warning("no thread for %s: %s", self._name, error)
                self.current = None
                self._runs.discard(run)
                return False
        return True

    def is_wanted(self, run: AsyncBackgroundRun) -> bool:
        """Whether this run should continue."""
        return self.current is run and not run.stopping.is_set()

    def kick(self) -> None:
        """Set the `kicked` event of the current run, which interrupts its wait."""
        if (run := self.current) is not None:
            run.kicked.set()

    def leave(self, run: AsyncBackgroundRun) -> None:
        """Record that callers must not rely on this run any more, because it is about to end."""
        with self._state:
            if self.current is run:
                self.current = None

    async def _keep_on(self, run: AsyncBackgroundRun) -> None:
        run.has_begun = True
        try:
            await self._work(run)
        finally:
            self.leave(run)
            with self._state:
                self._runs.discard(run)
            run.ended.set()

    def cancel(self) -> None:
        """Cancel the runs that are tasks; runs that are threads end only through `stop`."""
        with self._state:
            runs = list(self._runs)
        for one in runs:
            if one.task is not None:
                one.task.cancel()

    async def stop(self, kick: Callable[[], None] | None = None) -> None:
        """End all runs and wait for them.

        If an interrupt strikes this call, the runs still end, and a repeated call waits for them
        again.
        """
        self.current = None  # every run sees this change, whatever happens below
        with self._state:
            runs = list(self._runs)
        for one in runs:
            one.stopping.set()
            one.kicked.set()
        if kick is not None:
            kick()
        for one in runs:
            if one.task is not None:
                await one.task.join()
            elif one.has_begun:
                await runtime.wait_for(one.ended, deadline=FOREVER, clock=self._clock)

    def after_fork_in_child(self) -> None:
        """Start empty, because the parent's runs do not exist in the child."""
        fork.abandon(self._runs)  # otherwise the child would report the end of the parent's tasks
        self._state = runtime.StateLock()
        self.current, self._runs = None, set()


_log = logging.getLogger("lockfast")
