"""An interrupt at a chosen place: wherever CPython checks for signals, and nowhere else.

It checks when a function begins and after each call, to Python or to C. This is where Ctrl-C, a
signal handler that raises, or the time limit of a worker raise their exception. A profile function
is called at exactly these places, and its exception is raised like theirs: at the beginning of the
callee, or in the caller at the call, whose result is lost.

Excluded are finalizers and callbacks of the garbage collector, whose exceptions Python itself
swallows, and the hook that reports these. Also excluded is what `logging` does under its own locks:
an interrupted lock stays locked, and pytest's handler, or that of the module, would block every
thread of a later test that logs something, for ever.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

NOT_ON_TRIAL = (
    ".__del__",
    "WeakSet.__init__.<locals>._remove",
    "WeakKeyDictionary.__init__.<locals>.remove",
    "WeakValueDictionary.__init__.<locals>.remove",
    "gc_cumulative_time.<locals>.gc_callback",
    "FramelessHook._tell",
    "Logger.callHandlers",
    "Logger.isEnabledFor",
    "Manager.getLogger",
)
"""Ends of the qualified names of functions that must not be interrupted.

The garbage collector may call Hypothesis's callback at any point; `FramelessHook` reports the
exceptions of the entries before it. The last three belong to `logging`.
"""


def is_on_trial(frame: FrameType | None) -> bool:
    """Return whether an exception raised in this frame would reach the caller of the action."""
    while frame is not None:
        if _is_left_out(frame):
            return False
        frame = frame.f_back
    return True


def _is_left_out(frame: FrameType) -> bool:
    return frame.f_code.co_qualname.endswith(NOT_ON_TRIAL)


class Places:
    """Selects the places from all calls of a profile function, for one action.

    Excluded functions are counted when they are called and when they return, including everything
    they call: walking up the frames at each place would take longer than everything else.
    """

    def __init__(self) -> None:
        self._left_out = 0

    def is_one(self, frame: FrameType, event: str) -> bool:
        """Return whether an interrupt may strike now; must be called for each event, in order."""
        if event == "call":
            self._left_out += _is_left_out(frame)
            return not self._left_out
        is_on_trial = not self._left_out
        if event == "return":
            self._left_out -= _is_left_out(frame)
            return is_on_trial
        return event == "c_return" and is_on_trial


class Interrupt(BaseException):
    """Like KeyboardInterrupt, but our own, so that a real one still ends the run."""


def places(action: Callable[[], object]) -> int:
    """Return the number of places where the action can be interrupted."""
    count, found = 0, Places()

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += found.is_one(frame, event)

    _profiled(action, look)
    return count


def interrupt(
    action: Callable[[], object], *, at: int, handle: Callable[[], object] | None = None
) -> str | None:
    """Run the action and interrupt it once; return where, or None if the action ended first.

    `handle` is called for the interrupt while its frames still exist.
    """
    where: str | None = None
    left, found = at, Places()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal where, left
        if not found.is_one(frame, event):
            return
        left -= 1
        if left < 0 and where is None:
            # Record where, but do not keep the result of the call alive, which is lost anyway.
            name = getattr(argument, "__name__", "") if event == "c_return" else ""
            code = frame.f_code
            where = f"{event} {name} {code.co_filename}:{frame.f_lineno} {code.co_qualname}"
            raise Interrupt

    try:
        _profiled(action, look)
    except Interrupt as error:
        if handle is not None:
            handle()
        # The interrupt's frames would keep their objects alive.
        error.__traceback__ = None
    return where


def _profiled(action: Callable[[], object], look: Callable[..., None]) -> None:
    # The caller's own frame is excluded: an interrupt between the return of `acquire` and the
    # assignment of its result drops the lease, just as it would drop a file.
    with FramelessHook():
        sys.setprofile(look)
        try:
            action()
        finally:
            sys.setprofile(None)


class FramelessHook:
    """Reports what a finalizer raises as usual, but without the frames it was raised in.

    A socket that one interrupt left in a cycle may be collected just before the next interrupt,
    with a warning. pytest keeps the warning until the test has ended, and with the warning all
    frames of that moment: the objects that they own would look like leaks.
    """

    def __enter__(self) -> None:
        self._before, sys.unraisablehook = sys.unraisablehook, self._tell

    def __exit__(self, *_: object) -> None:
        sys.unraisablehook = self._before

    def _tell(self, unraisable: sys.UnraisableHookArgs) -> None:
        kind, error, message = unraisable.exc_type, unraisable.exc_value, unraisable.err_msg
        if error is not None:
            error.__traceback__ = error.__context__ = None
        told = kind, error, None, message, unraisable.object
        self._before(type(unraisable)(told))
