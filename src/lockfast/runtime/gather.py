"""Make several calls at once, and start a thread."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence


# Starts a thread, and never mistakes an interrupt for a failure to start it.


def refuse_without_daemons() -> None:
    """Raise if this interpreter allows no background threads, as in a subinterpreter.

    This is called before the first request to the store. Without it, the failure would come later,
    when a granted lock needs a thread, and the lock would stay held.
    """
    try:
        threading.Thread(daemon=True)
    except RuntimeError as error:
        raise ConfigurationError(
            f"this interpreter cannot start background threads ({error}), and leases are renewed "
            "by one; subinterpreters forbid it, so use the locks in the main interpreter"
        ) from error


def start_thread(thread: threading.Thread) -> None:
    """Start the thread; raise RuntimeError if it cannot be started.

    An exception from an interrupt is passed on; by then, the thread may be running.
    """
    outside = sys.exc_info()[1]
    interruption: BaseException | None = None
    try:
        thread.start()
    except RuntimeError as error:
        # After an interrupt, `threading` may fail on one of its own locks and raise RuntimeError
        # instead. The caller would then continue without a thread, and nobody would notice the
        # interrupt.
        interruption = error.__context__
        if interruption is None or interruption is outside:
            raise
    try:
        if interruption is not None:
            raise interruption
    finally:
        del interruption  # it refers to this frame; a cycle would keep others' objects alive


T = TypeVar("T")


# Makes several calls at once, so that each waits only for its own reply.
#
# All calls have ended when the results are returned or an error is raised, so no call continues
# behind the caller's back. Each call is responsible for its own time limit.


async def gather_tasks(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Return the results of the calls, in order; if a call failed, raise after all have ended."""
    if len(calls) == 1:
        return [await calls[0]()]
    # Import asyncio here, because sync programs use this module too, and do not need asyncio.
    from asyncio import gather  # noqa: PLC0415

    errors: list[BaseException] = []

    async def make(call: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        try:
            return await call()
        except Exception as error:  # noqa: BLE001 - raised once all calls have ended
            errors.append(error)
            return None

    # With `return_exceptions`, even a cancellation waits until all calls have ended. Do not inspect
    # the results for exceptions, because an exception can be a legitimate result.
    found = await gather(*(make(one) for one in calls), return_exceptions=True)
    if errors:
        _raise(errors)
    return cast("list[T]", found)


def gather_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return the results of the calls, in order; if a call failed, raise after all have ended.

    The first call is made on the caller's own thread. If no thread can be started for a call, the
    caller's thread makes this call too, after the first, because a late call is better than none.
    """
    made = [GatheredCall(one) for one in calls]
    try:
        here = [one for i, one in enumerate(made) if i == 0 or not _started(one)]
        for one in here:
            one.make_here()
        for one in made:
            one.wait()
    except BaseException:
        # An interrupt has struck. Calls that no thread has begun are never made. Wait for the calls
        # under way, because the caller is about to undo their effects.
        for one in made:
            if not (one.is_ours() or one.is_here):
                one.wait()
        raise
    errors = [error for one in made for error in one.pop_errors()]
    if errors:
        _raise(errors)
    return [one.answers[0] for one in made]


def _started(one: GatheredCall[T]) -> bool:
    """Start a thread for the call; return whether this succeeded."""
    try:
        start_thread(threading.Thread(target=one.make, name="lockfast-gather", daemon=True))
    except RuntimeError:
        return False
    return True


class GatheredCall(Generic[T]):
    """One of several calls, and its outcome.

    A lock signals the end of the call. `Thread.join` would not be reliable, because an interrupt in
    the middle of it can make a live thread look dead.
    """

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._tickets = [1]
        self._is_over = False
        self.is_here: bool = False
        self._ended = threading.Lock()
        self._ended.acquire()
        self.answers: list[T] = []
        self.error: BaseException | None = None

    def is_ours(self) -> bool:
        """Claim the right to make the call; only the first claim succeeds."""
        try:
            self._tickets.pop()
        except IndexError:
            return False
        return True

    def make(self) -> None:
        """Make the call, unless another thread has claimed it; keep its error for later."""
        if not self.is_ours():
            return
        try:
            self.answers.append(self._call())
        except BaseException as error:  # noqa: BLE001 - raised by the gathering thread
            self.error = error
        finally:
            self._is_over = True
            self._ended.release()

    def pop_errors(self) -> list[BaseException]:
        """Return the error of the call, if any, and forget the error."""
        errors = [] if self.error is None else [self.error]
        self.error = None
        return errors

    def wait(self) -> None:
        """Wait until the call has ended."""
        # `make` sets `_is_over` before it releases the lock. So if an interrupt strikes between the
        # acquire and the release below, the next wait still finds that the call has ended.
        if not self._is_over:
            self._ended.acquire()
            self._ended.release()

    def make_here(self) -> None:
        """Make the call on the gathering thread; an interrupt is passed on."""
        self.is_here = True
        self.make()
        if self.error is not None and not isinstance(self.error, Exception):
            _raise(self.pop_errors())


def _raise(errors: list[BaseException]) -> NoReturn:
    """Raise the first error, or an interrupt if there is one; the other errors become its notes.

    Afterwards the list is empty.
    """
    first = min(errors, key=lambda one: isinstance(one, Exception))
    notes = [
        f"and another of the calls made with it failed: {one!r}"
        for one in errors
        if one is not first
    ]
    for note in notes:
        first.add_note(note)
    # An error refers to the frames that it passed through. If these frames referred to the error
    # too, the cycle would keep the objects in the frames alive until the garbage collector runs.
    errors.clear()
    try:
        raise first
    finally:
        del first
