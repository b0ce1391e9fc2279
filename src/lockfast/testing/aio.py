"""Runs the tests of the contract, asyncio flavour; `threads` is the hand-written counterpart."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lockfast.runtime.clock import Clock
from lockfast.testing.clock import (
    POLL_FIRST_SECONDS,
    POLL_LONGEST_SECONDS,
    VirtualClock,
    VirtualTimeLoop,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

P = ParamSpec("P")
T = TypeVar("T")

IS_ASYNC = True


def run(test: Callable[[], Coroutine[Any, Any, None]], *, virtual_time: bool) -> None:
    """Run one test on its own loop."""
    factory = VirtualTimeLoop if virtual_time else None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(test())


def clock() -> Clock:
    """Return the clock of the running test."""
    loop = asyncio.get_running_loop()
    return VirtualClock(loop) if isinstance(loop, VirtualTimeLoop) else Clock()


class Running:
    """A function that runs concurrently with the test."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    async def result(self) -> Any:  # noqa: ANN401 - the function's result
        """Wait for the function to end; return its result or raise its error."""
        return await self._task

    def cancel(self) -> None:
        """Cancel the function."""
        self._task.cancel()

    def is_done(self) -> bool:
        """Return whether the function has ended."""
        return self._task.done()


def start(function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> Running:
    """Run the function concurrently with the test."""

    async def work() -> T:
        return await function(*args, **kwargs)

    # The task gets its own context, so that it does not count as a child of the test's task.
    stranger = contextvars.Context()
    return Running(asyncio.get_running_loop().create_task(work(), context=stranger))


async def until(condition: Callable[[], object], *, clock: Clock, within: float = 10.0) -> None:
    """Wait until the condition is true; fail if that takes too long."""
    deadline, pause = clock.now() + within, POLL_FIRST_SECONDS
    while not condition():
        if clock.now() >= deadline:
            raise AssertionError(f"still not true after {within} s")
        await asyncio.sleep(pause)
        pause = min(pause * 1.1, POLL_LONGEST_SECONDS)
