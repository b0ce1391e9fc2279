"""Several calls at once: each waits for its own answer, and nobody for another's.

All of them have ended when the answers are there, or when an error is raised: none goes on
behind the back of the one who asked. How long they may take is theirs to know.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, cast

from lockfast.runtime.starting import start

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

T = TypeVar("T")


async def gather_tasks(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
    """Return what each call returns, in order; raise once all have ended if one failed."""
    if len(calls) == 1:
        return [await calls[0]()]
    # Here, since threads gather by this module too, and a sync program does without asyncio.
    from asyncio import gather  # noqa: PLC0415

    errors: list[BaseException] = []

    async def make(call: Callable[[], Coroutine[Any, Any, T]]) -> T | None:
        try:
            return await call()
        except Exception as error:  # noqa: BLE001 - it is raised once all have ended
            errors.append(error)
            return None

    # With `return_exceptions` a cancellation, too, waits until all have ended. What it returns
    # may not be looked at: an exception can be an answer.
    found = await gather(*(make(one) for one in calls), return_exceptions=True)
    if errors:
        _raise(errors)
    return cast("list[T]", found)


def gather_threads(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Return what each call returns, in order; raise once all have ended if one failed.

    The first is made on the caller's own thread. What no thread is to be had for is made there
    too, afterwards: late is better than not.
    """
    made = [Call(one) for one in calls]
    try:
        here = [one for i, one in enumerate(made) if i == 0 or not _is_begun(one)]
        for one in here:
            one.make_here()
        for one in made:
            one.wait()
    except BaseException:
        # An interrupt. What no thread has begun yet is not begun any more, and what one has is
        # waited for: the caller is about to undo what it would go on doing.
        for one in made:
            if not (one.is_ours() or one.is_here):
                one.wait()
        raise
    errors = [error for one in made for error in one.taken_errors()]
    if errors:
        _raise(errors)
    return [one.answers[0] for one in made]


def _is_begun(one: Call[T]) -> bool:
    """Whether there is a thread that makes the call."""
    try:
        start(threading.Thread(target=one.make, name="lockfast-gather", daemon=True))
    except RuntimeError:
        return False
    return True


class Call(Generic[T]):
    """One of several, and what became of it.

    Its end is told by a lock of its own: an interrupt in the middle of `Thread.join` can make
    a thread look dead that is not.
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
        """Whether whoever asks this is the first one to do so, and nobody else makes it."""
        try:
            self._tickets.pop()
        except IndexError:
            return False
        return True

    def make(self) -> None:
        """Make it, unless somebody else does; what it raises is told to the one who gathers."""
        if not self.is_ours():
            return
        try:
            self.answers.append(self._call())
        except BaseException as error:  # noqa: BLE001 - it is raised where they are gathered
            self.error = error
        finally:
            self._is_over = True
            self._ended.release()

    def taken_errors(self) -> list[BaseException]:
        """Return what it raised, if anything, and know it no more."""
        errors = [] if self.error is None else [self.error]
        self.error = None
        return errors

    def wait(self) -> None:
        """Return when it has been made."""
        # In this order: who is interrupted between the two finds that it is over.
        if not self._is_over:
            self._ended.acquire()
            self._ended.release()

    def make_here(self) -> None:
        """Make it on the thread of the one who gathers; an interrupt gets through."""
        self.is_here = True
        self.make()
        if self.error is not None and not isinstance(self.error, Exception):
            _raise(self.taken_errors())


def _raise(errors: list[BaseException]) -> NoReturn:
    """Raise the first of them, or an interrupt where there is one; the others stand below it.

    The list is empty afterwards.
    """
    first = min(errors, key=lambda one: isinstance(one, Exception))
    notes = [
        f"and another of the calls made with it failed: {one!r}"
        for one in errors
        if one is not first
    ]
    for note in notes:
        first.add_note(note)
    # An error knows the frames it went through. If these knew it too, all that they own would be
    # kept alive by the two, until a collector comes by.
    errors.clear()
    try:
        raise first
    finally:
        del first
