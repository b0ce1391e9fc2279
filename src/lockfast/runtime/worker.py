"""Blocking calls, made one at a time, and deferred calls."""

from __future__ import annotations

import queue
import threading
from collections import deque
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lockfast.errors import BackendUnavailable, LockError
from lockfast.runtime import fork
from lockfast.runtime.gather import refuse_without_daemons

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


# Calls that a finalizer or a signal handler requested while its own thread was in the middle of a
# step.
#
# The step cannot be entered twice, and it cannot continue before the handler has returned. So the
# requested release or withdrawal is made when the step has ended. The delay does no harm, because
# nobody waits for the reply.


class DeferredCalls:
    """Calls to make later, in order, each only once."""

    def __init__(self) -> None:
        self._deferred: deque[Callable[[], object]] = deque()

    def add(self, act: Callable[[], object]) -> None:
        """Schedule the call for the end of the step under way."""
        self._deferred.append(act)

    def do(self) -> None:
        """Make the deferred calls; call this outside of every step."""
        if not self._deferred:
            return
        # These calls are steps too, and call this method at their end, where they must not find the
        # same calls again.
        pending, self._deferred = self._deferred, deque()
        try:
            while pending:
                try:
                    pending.popleft()()
                except LockError:
                    # Nobody waits for the result any more. The lease is no longer renewed, so it
                    # ends by its ttl.
                    continue
        finally:
            self._deferred.extendleft(
                reversed(pending)
            )  # after an interrupt, the next step makes the other calls

    def clear(self) -> None:
        """Drop all deferred calls."""
        self._deferred.clear()


# Makes blocking calls one at a time, on a worker thread beside the loop or on the caller's own
# thread.
#
# Renewals and releases go first, because a lease must not expire while its renewal is queued behind
# the requests of waiting claims. Calls of one kind keep their order.

P = ParamSpec("P")
T = TypeVar("T")


class WorkerTurn:
    """The turn to make a call; a fork waits for it, and the thread that has it may take it again.

    A thread that gets the mutex records itself as `owner` at once; no call is made in between, so
    no interrupt can strike there. When the turn is given back, not `owner` but the mutex itself
    determines whose turn it is.
    """

    __slots__ = ("mutex", "owner")

    def __init__(self) -> None:
        self.mutex: threading.RLock = threading.RLock()
        self.owner: int = 0

    def pause(self) -> None:
        """Wait for the call under way to end, and allow no others; a second pause is harmless."""
        # A signal handler that forks in the middle of a call cannot wait for that call.
        if self.owner != get_ident():
            self.mutex.acquire()

    def resume(self) -> None:
        """Undo every `pause` of this thread."""
        if self.owner != get_ident():
            with suppress(RuntimeError):  # we do not have the mutex, or no longer
                while True:
                    self.mutex.release()


class ThreadWorker:
    """Makes each call on the caller's own thread, as soon as it is the caller's turn.

    A finalizer or a signal handler may interrupt a call and make another call on the same thread.
    That other call is made at once, so code that must not be entered twice has to protect itself.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._turn = WorkerTurn()
        self._line = threading.RLock()
        fork.pause_for_fork(self)

    def before_fork(self) -> None:
        """Let the call under way end."""
        self._turn.pause()

    def after_fork_in_parent(self) -> None:
        """Let the next call begin."""
        self._turn.resume()

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function in its turn, and return its result."""
        turn, me = self._turn, get_ident()
        if turn.owner == me:
            return function(*args, **kwargs)
        # Only one of these calls at a time waits for the mutex, so that an urgent call has at most
        # one of them ahead.
        with self._line, turn.mutex:
            turn.owner = me
            try:
                answer = function(*args, **kwargs)
            finally:
                turn.owner = 0
        return answer

    def run_first(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function ahead of all calls made with `run`, and return its result."""
        turn, me = self._turn, get_ident()
        with turn.mutex:
            before, turn.owner = turn.owner, me
            try:
                answer = function(*args, **kwargs)
            finally:
                turn.owner = before
        return answer

    def stop(self) -> None:
        """Do nothing, because there is no thread to end."""

    def after_fork_in_child(self) -> None:
        """Take fresh mutexes, because threads of the parent may hold the inherited ones."""
        self._turn = WorkerTurn()
        self._line = threading.RLock()


class TaskWorker:
    """Makes the calls on one thread of its own.

    If the task that awaits a call is cancelled, the call is still made in its turn, so that a later
    call (a withdrawal) finds the effect of the first.
    """

    def __init__(self, name: str) -> None:
        refuse_without_daemons()
        self.name = name
        self._calls = WorkerCalls()
        self._thread: threading.Thread | None = None
        self._turn = WorkerTurn()
        fork.pause_for_fork(self)

    def __del__(self) -> None:
        # The worker was dropped without `stop`, together with its client. The thread refers only to
        # the queue of calls, not to the worker, so end the thread through the queue.
        if getattr(self, "_thread", None) is not None:
            self._calls.put(None, is_urgent=False)

    def before_fork(self) -> None:
        """Let the call under way end."""
        self._turn.pause()

    def after_fork_in_parent(self) -> None:
        """Let the next call begin."""
        self._turn.resume()

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function on the worker's thread, and return its result."""
        return await self._put(lambda: function(*args, **kwargs), is_urgent=False)

    async def run_first(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function ahead of all calls made with `run`, and return its result."""
        return await self._put(lambda: function(*args, **kwargs), is_urgent=True)

    async def _put(self, function: Callable[[], T], *, is_urgent: bool) -> T:
        if self._thread is None:
            self._thread = self._started()
        # Import asyncio here, because sync programs have workers too, and do not need asyncio.
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
            # Do not keep the thread object. If its thread never began, nothing would ever answer
            # calls queued for it.
            raise BackendUnavailable(f"no thread is to be had for {self.name}: {error}") from error
        return thread

    async def stop(self) -> None:
        """End the thread after the calls that are already queued."""
        if self._thread is not None:
            # An idle thread ends at once, so `join` does not block the loop.
            await self.run(lambda: None)
            self._calls.put(None, is_urgent=False)
            self._thread.join()
            self._thread = None

    def after_fork_in_child(self) -> None:
        """Forget the parent's thread, which the child does not have."""
        self._calls = WorkerCalls()
        self._thread = None
        self._turn = WorkerTurn()


class WorkerCalls:
    """The queue of a worker's thread, urgent calls first."""

    def __init__(self) -> None:
        self._number: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._urgent: deque[tuple[Any, ...] | None] = deque()
        self._others: deque[tuple[Any, ...] | None] = deque()

    def put(self, call: tuple[Any, ...] | None, *, is_urgent: bool) -> None:
        """Add a call; None ends the thread."""
        (self._urgent if is_urgent else self._others).append(call)
        self._number.put(None)

    def get(self) -> tuple[Any, ...] | None:
        """Wait for the next call and return it."""
        self._number.get()
        return self._urgent.popleft() if self._urgent else self._others.popleft()


def _serve(calls: WorkerCalls, turn: WorkerTurn) -> None:
    while (call := calls.get()) is not None:
        loop, future, function = call
        try:
            with turn.mutex:
                turn.owner = get_ident()
                try:
                    result, error = function(), None
                finally:
                    turn.owner = 0
        except BaseException as caught:  # noqa: BLE001 - raised where the result is awaited
            result, error = None, caught
        # The loop is closed, so nobody is left to receive the result.
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
