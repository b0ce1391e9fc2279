"""A background job of a client, on which other code relies.

The job outlives every error. It ends when no caller needs it, and the next caller that needs it
starts it again. A run is recorded before its task starts. So if an interrupt strikes the caller
that starts it, the next caller finds the run unfinished and starts a new one.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from lockfast.core.backoff import delay
from lockfast.errors import LockError
from lockfast.model import FOREVER
from lockfast.runtime import aio as runtime
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.runtime.clock import Clock


SETTLED_SECONDS = 1.0
"""If the job ends sooner than this, in seconds, it pauses before it is repeated, as after an error;
otherwise a server that ends every subscription at once would be asked thousands of times a second.
"""


class AsyncBackgroundRun:
    """One run of the job; this object exists before the task of the run does."""

    def __init__(self) -> None:
        self.stopping = runtime.WakeEvent()
        self.interrupted = runtime.WakeEvent()
        self.ended = runtime.WakeEvent()
        self.has_begun = False
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Whether the task of the run is alive; false too if an interrupt prevented its start."""
        return self.task is not None and self.task.is_alive()


class AsyncBackground:
    """Runs a job; callers rely on the latest run, while older runs may still be ending."""

    def __init__(
        self,
        work: Callable[[AsyncBackgroundRun], Awaitable[bool]],
        *,
        name: str,
        clock: Clock,
        failed: Callable[[AsyncBackgroundRun, Exception], Awaitable[None]] | None = None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        """Repeat `work` in each run until it returns false.

        `failed` gets each of its errors before the next attempt. `ended` is called at the end of
        each run, also if the run was cancelled.
        """
        self._work = work
        self._name = name
        self._clock = clock
        self._failed = failed
        self._ended = ended
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
                run.task = runtime.spawn(partial(self._run, run), name=self._name)
            except RuntimeError as error:
                _log.warning("no thread for %s: %s", self._name, error)
                self.current = None
                self._runs.discard(run)
                return False
        return True

    def is_wanted(self, run: AsyncBackgroundRun) -> bool:
        """Whether this run should continue."""
        return self.current is run and not run.stopping.is_set()

    def interrupt(self) -> None:
        """Set the `interrupted` event of the current run, which interrupts its wait."""
        if (run := self.current) is not None:
            run.interrupted.set()

    def leave(self, run: AsyncBackgroundRun) -> None:
        """Record that callers must not rely on this run any more, because it is about to end."""
        with self._state:
            if self.current is run:
                self.current = None

    async def _run(self, run: AsyncBackgroundRun) -> None:
        run.has_begun = True
        try:
            await self._keep_on(run)
        finally:
            self.leave(run)
            # Most likely a program cancelled all of its tasks, so this may be the last thing that
            # those who rely on this run ever hear.
            self._ended()
            with self._state:
                self._runs.discard(run)
            run.ended.set()

    async def _keep_on(self, run: AsyncBackgroundRun) -> None:
        attempt = 0
        while self.is_wanted(run):
            began_at = self._clock.now()
            failure: Exception | None = None
            try:
                if not await self._work(run):
                    return
            except LockError as error:
                failure = error
                _log.debug("%s: %s", self._name, error)
            except Exception as error:  # noqa: BLE001 - others rely on this loop
                # For example, a credential provider failed, no descriptors are left, or this is a
                # bug of our own.
                failure = error
                _log.warning("%s failed, and goes on: %r", self._name, error, exc_info=True)
            if failure is None and self._clock.now() >= began_at + SETTLED_SECONDS:
                attempt = 0
                continue
            if failure is not None and self._failed is not None:
                await self._failed(run, failure)
            until = self._clock.now() + delay(attempt, jitter=self._clock.jitter())
            attempt += 1
            await runtime.wait_for(run.stopping, deadline=until, clock=self._clock)

    def cancel(self) -> None:
        """Cancel the runs that are tasks; runs that are threads end only through `end`."""
        with self._state:
            runs = list(self._runs)
        for one in runs:
            if one.task is not None:
                one.task.cancel()

    def end(self) -> None:
        """Make all runs end; `stop` also waits for them."""
        self.current = None  # every run sees this change, whatever happens below
        with self._state:
            runs = list(self._runs)
        for one in runs:
            one.stopping.set()
            one.interrupted.set()

    async def stop(self) -> None:
        """End all runs and wait for them.

        If an interrupt strikes this call, the runs still end, and a repeated call waits for them
        again.
        """
        self.end()
        with self._state:
            runs = list(self._runs)
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
