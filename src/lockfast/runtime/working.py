"""Blocking calls, one at a time: on a thread beside the loop, or on the caller's own.

Renewals and releases go first. However many wait to be let in, and ask all at once, a lease
must not run out behind their questions. Calls of one kind keep their order.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lockfast.errors import BackendUnavailable
from lockfast.runtime import forking
from lockfast.runtime.starting import refuse_without_daemons

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")


class Turn:
    """The turn of one call, which a fork waits for; it may be taken again by its own thread.

    Whoever has the mutex notes its thread at once: no call stands between them, so no interrupt
    strikes there. It is given back by asking the mutex itself whose it is, not the note.
    """

    __slots__ = ("mutex", "owner")

    def __init__(self) -> None:
        self.mutex: threading.RLock = threading.RLock()
        self.owner: int = 0

    def pause(self) -> None:
        """Let the call under way end, and none begin; asked again, nothing changes."""
        if self.owner != get_ident():  # a handler that forks inside a call cannot wait for it
            self.mutex.acquire()

    def go_on(self) -> None:
        """Take back every `pause` of this thread."""
        if self.owner != get_ident():
            with suppress(RuntimeError):  # it is not, or no longer, ours
                while True:
                    self.mutex.release()


class ThreadWorker:
    """Makes the call on the caller's own thread, when its turn has come.

    A finalizer or a signal handler may strike in the middle of a call and call again, on the
    same thread. That call is made at once; what must not be entered twice has to see to it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._turn = Turn()
        self._line = threading.RLock()
        forking.pause_for_fork(self)

    def before_fork(self) -> None:
        """Let the call under way end."""
        self._turn.pause()

    def after_fork_in_parent(self) -> None:
        """Let the next one begin."""
        self._turn.go_on()

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns."""
        turn, me = self._turn, get_ident()
        if turn.owner == me:
            return function(*args, **kwargs)
        # One at a time of these, so that an urgent call has at most one of them before it.
        with self._line, turn.mutex:
            turn.owner = me
            try:
                answer = function(*args, **kwargs)
            finally:
                turn.owner = 0
        return answer

    def run_first(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns, before all that came by way of `run`."""
        turn, me = self._turn, get_ident()
        with turn.mutex:
            before, turn.owner = turn.owner, me
            try:
                answer = function(*args, **kwargs)
            finally:
                turn.owner = before
        return answer

    def stop(self) -> None:
        """Do nothing: there is no thread to end."""

    def after_fork_in_child(self) -> None:
        """Take fresh mutexes: the parent's may have been locked by a thread we lack."""
        self._turn = Turn()
        self._line = threading.RLock()


class TaskWorker:
    """Makes the calls on one thread of its own.

    A call whose awaiter was cancelled is still made, in its turn: what comes after it (a
    withdrawal) finds its effect.
    """

    def __init__(self, name: str) -> None:
        refuse_without_daemons()
        self.name = name
        self._calls = Calls()
        self._thread: threading.Thread | None = None
        self._turn = Turn()
        forking.pause_for_fork(self)

    def __del__(self) -> None:
        # Dropped without `stop`, with the client that it served: its thread knows only the calls.
        if getattr(self, "_thread", None) is not None:
            self._calls.put(None, is_urgent=False)

    def before_fork(self) -> None:
        """Let the call under way end."""
        self._turn.pause()

    def after_fork_in_parent(self) -> None:
        """Let the next one begin."""
        self._turn.go_on()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns on the worker's thread."""
        return await self._put(lambda: function(*args, **kwargs), is_urgent=False)

    async def run_first(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what the function returns, before all that came by way of `run`."""
        return await self._put(lambda: function(*args, **kwargs), is_urgent=True)

    async def _put(self, function: Callable[[], T], *, is_urgent: bool) -> T:
        if self._thread is None:
            self._thread = self._started()
        # Here, since a sync program has workers too, and does without asyncio.
        from asyncio import get_running_loop  # noqa: PLC0415

        loop = get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put((loop, future, function), is_urgent=is_urgent)
        return await future

    def _started(self) -> threading.Thread:
        thread = threading.Thread(
            target=_serve, args=(self._calls, self._turn), name=self.name, daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:
            # Not kept: calls that are put for a thread which never began are never answered.
            raise BackendUnavailable(f"no thread is to be had for {self.name}: {error}") from error
        return thread

    async def stop(self) -> None:
        """End the thread after the calls that were already made."""
        if self._thread is not None:
            # Once it is idle it ends at once, so the loop does not stand still in `join`.
            await self.run(lambda: None)
            self._calls.put(None, is_urgent=False)
            self._thread.join()
            self._thread = None

    def after_fork_in_child(self) -> None:
        """Forget the parent's thread, which the child does not have."""
        self._calls = Calls()
        self._thread = None
        self._turn = Turn()


class Calls:
    """What a worker's thread has to do, the urgent first."""

    def __init__(self) -> None:
        self._number: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._urgent: deque[tuple[Any, ...] | None] = deque()
        self._others: deque[tuple[Any, ...] | None] = deque()

    def put(self, call: tuple[Any, ...] | None, *, is_urgent: bool) -> None:
        """Add a call; None is the end."""
        (self._urgent if is_urgent else self._others).append(call)
        self._number.put(None)

    def get(self) -> tuple[Any, ...] | None:
        """Return the next call, waiting for it."""
        self._number.get()
        return self._urgent.popleft() if self._urgent else self._others.popleft()


def _serve(calls: Calls, turn: Turn) -> None:
    while (call := calls.get()) is not None:
        loop, future, function = call
        try:
            with turn.mutex:
                turn.owner = get_ident()
                try:
                    result, error = function(), None
                finally:
                    turn.owner = 0
        except BaseException as caught:  # noqa: BLE001 - it is raised where it is awaited
            result, error = None, caught
        # A closed loop: nobody is left to hear the answer.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, future, result, error)
        del call, loop, future, function, result, error


def _settle(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
