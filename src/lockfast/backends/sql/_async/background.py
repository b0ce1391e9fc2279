"""Something that goes on beside the calls of a client, and on which somebody relies.

It ends by itself when nobody needs it, and is begun again by whoever does. It is known before
it runs: where an interrupt strikes whoever begins it, it is found unfinished, and begun anew.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from lockfast.runtime import aio as runtime
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lockfast.runtime.clock import Clock

NEVER = float("inf")


class AsyncRun:
    """One run of it; it exists before its task does."""

    def __init__(self) -> None:
        self.stopping = runtime.Event()
        self.kicked = runtime.Event()
        self.ended = runtime.Event()
        self.has_begun = False
        self.task: runtime.Task | None = None

    def is_alive(self) -> bool:
        """Whether it can be relied on; not if whoever began it was interrupted in the middle."""
        return self.task is not None and self.task.is_alive()


class AsyncBackground:
    """At most one run at a time that anybody relies on."""

    def __init__(
        self, work: Callable[[AsyncRun], Awaitable[None]], *, name: str, clock: Clock
    ) -> None:
        self._work = work
        self._name = name
        self._clock = clock
        self._state = runtime.StateLock()
        self._run: AsyncRun | None = None
        self._runs: set[AsyncRun] = set()

    def is_running(self) -> bool:
        """Whether it runs, after beginning it if it did not; false if it cannot."""
        run = self._run
        if run is not None and run.is_alive():
            return True
        with self._state:
            if self._run is not None and self._run.is_alive():
                return True
            run = self._run = AsyncRun()
            self._runs.add(run)
            try:
                run.task = runtime.spawn(partial(self._keep_on, run), name=self._name)
            except RuntimeError as error:
                _log.warning("no thread for %s: %s", self._name, error)
                self._run = None
                self._runs.discard(run)
                return False
        return True

    def is_wanted(self, run: AsyncRun) -> bool:
        """Whether this run should go on."""
        return self._run is run and not run.stopping.is_set()

    def kick(self) -> None:
        """Let the run look around, if it waits for that."""
        if (run := self._run) is not None:
            run.kicked.set()

    def leave(self, run: AsyncRun) -> None:
        """Let nobody rely on this run any more: it is about to end."""
        with self._state:
            if self._run is run:
                self._run = None

    async def _keep_on(self, run: AsyncRun) -> None:
        run.has_begun = True
        try:
            await self._work(run)
        finally:
            self.leave(run)
            with self._state:
                self._runs.discard(run)
            run.ended.set()

    def cancel(self) -> None:
        """End what runs at its next await, where it is a task; a thread has to be told."""
        with self._state:
            runs = list(self._runs)
        for one in runs:
            if one.task is not None:
                one.task.cancel()

    async def stop(self, kick: Callable[[], None] | None = None) -> None:
        """End it; what is interrupted here ends by itself, and may be waited for again."""
        self._run = None  # whoever runs sees it, whatever becomes of the rest
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
                await runtime.wait_for(one.ended, deadline=NEVER, clock=self._clock)

    def after_fork_in_child(self) -> None:
        """Nothing of the parent's runs here."""
        forking.leak(self._runs)  # a task that ends here would be told of as if it were ours
        self._state = runtime.StateLock()
        self._run, self._runs = None, set()


_log = logging.getLogger("lockfast")
