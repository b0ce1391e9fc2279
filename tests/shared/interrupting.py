"""An interrupt at a chosen place: wherever CPython looks for a signal, and nowhere else.

It looks when a function begins and after each call, of Python's or of C's; what Ctrl-C, a signal
handler that raises, or the time limit of a worker raise, they raise there. A profile function is
called at just these places, and what it raises is raised as theirs would be: at the beginning of
the callee, or in the caller at the call, whose result is gone.

Left out are finalizers and what the collector calls, whose exceptions Python itself swallows, and
how that is told; and what `logging` does under its own locks, since one that is interrupted there
stays locked: pytest's handler, or the module's, would keep every thread of a later test that has
something to say, for ever.
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
"""How their full names end. Hypothesis has its callback called by the collector, wherever that
is; its successor tells what those before it raise. The last three are of `logging`."""


def is_on_trial(frame: FrameType | None) -> bool:
    """Whether what is raised in this frame would reach who called it all."""
    while frame is not None:
        if _is_left_out(frame):
            return False
        frame = frame.f_back
    return True


def _is_left_out(frame: FrameType) -> bool:
    return frame.f_code.co_qualname.endswith(NOT_ON_TRIAL)


class Places:
    """Tells the places from all that a profile function is called for, of one action.

    What is left out is counted when it is called and when it returns, whatever it calls itself:
    to walk up the frames at each place would take longer than all else.
    """

    def __init__(self) -> None:
        self._left_out = 0

    def is_one(self, frame: FrameType, event: str) -> bool:
        """Whether an interrupt may strike here; asked of each event, in their order."""
        if event == "call":
            self._left_out += _is_left_out(frame)
            return not self._left_out
        is_on_trial = not self._left_out
        if event == "return":
            self._left_out -= _is_left_out(frame)
            return is_on_trial
        return event == "c_return" and is_on_trial


class Interrupt(BaseException):
    """As KeyboardInterrupt; of our own, so that a real one still ends the run."""


def places(action: Callable[[], object]) -> int:
    """Return at how many places the action can be interrupted."""
    count, found = 0, Places()

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += found.is_one(frame, event)

    _profiled(action, look)
    return count


def interrupt(
    action: Callable[[], object], *, at: int, handle: Callable[[], object] | None = None
) -> str | None:
    """Run the action and interrupt it once; return where, or None if it ended before.

    The interrupt may be handled: while it is, its frames are still there.
    """
    where: str | None = None
    left, found = at, Places()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal where, left
        if not found.is_one(frame, event):
            return
        left -= 1
        if left < 0 and where is None:
            # What a call returns is gone, and must not be kept alive by us.
            name = getattr(argument, "__name__", "") if event == "c_return" else ""
            code = frame.f_code
            where = f"{event} {name} {code.co_filename}:{frame.f_lineno} {code.co_qualname}"
            raise Interrupt

    try:
        _profiled(action, look)
    except Interrupt as error:
        if handle is not None:
            handle()
        # Its frames would keep alive what they own.
        error.__traceback__ = None
    return where


def _profiled(action: Callable[[], object], look: Callable[..., None]) -> None:
    # The caller's own frame is not on trial: between the return of `acquire` and the
    # assignment of its result an interrupt drops a lease, as it would a file.
    with FramelessHook():
        sys.setprofile(look)
        try:
            action()
        finally:
            sys.setprofile(None)


class FramelessHook:
    """Tells what a finalizer raises as it would be told, but without the frames it was raised in.

    A socket that one interrupt left in a cycle may be collected, and say so, on the way to the
    next. pytest keeps what was said until the test has ended, and so all frames of that moment:
    what these own would seem to be left behind.
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
