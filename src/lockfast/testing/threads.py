"""Runs the tests of the contract, sync flavour; `aio` is the hand-written counterpart."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lockfast.runtime.clock import Clock
from lockfast.testing.clock import POLL_FIRST_SECONDS, POLL_LONGEST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

IS_ASYNC = False


def run(test: Callable[[], None], *, virtual_time: bool) -> None:
    """Run one test; threads have no virtual time."""
    del virtual_time
    test()


def clock() -> Clock:
    """Return the clock of the running test."""
    return Clock()


class Running:
    """A function that runs concurrently with the test."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._result: Any = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:  # noqa: BLE001 - raised where the test asks for the result
            self._error = error

    def result(self) -> Any:  # noqa: ANN401 - the function's result
        """Wait for the function to end; return its result or raise its error."""
        self._thread.join(60)
        if self._thread.is_alive():
            raise AssertionError("a thread of the test did not end within a minute")
        if self._error is not None:
            raise self._error
        return self._result

    def is_done(self) -> bool:
        """Return whether the function has ended."""
        return not self._thread.is_alive()


def start(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Running:
    """Run the function concurrently with the test."""
    return Running(lambda: function(*args, **kwargs))


def until(condition: Callable[[], object], *, clock: Clock, within: float = 10.0) -> None:
    """Wait until the condition is true; fail if that takes too long."""
    deadline, pause = clock.now() + within, POLL_FIRST_SECONDS
    while not condition():
        if clock.now() >= deadline:
            raise AssertionError(f"still not true after {within} s")
        time.sleep(pause)
        pause = min(pause * 1.1, POLL_LONGEST_SECONDS)
