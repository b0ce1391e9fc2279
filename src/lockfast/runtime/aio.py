"""The runtime of the asyncio flavour: tasks, no-op state locks, cancellation."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import operator
import threading
from contextlib import AsyncExitStack as ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from lockfast.errors import ConfigurationError
from lockfast.model import FOREVER
from lockfast.runtime.gather import gather_tasks as gather
from lockfast.runtime.interrupts import CleanupObligation
from lockfast.runtime.tasks import (
    TasklessRunner,
    must_be_awaited,
    remember_task,
    shield,
    task_ancestors,
)
from lockfast.runtime.timers import TaskTicker as Ticker
from lockfast.runtime.worker import TaskWorker as Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from lockfast.runtime.clock import Clock

__all__ = [
    "FLAVOUR",
    "INTERRUPTED_ANYWHERE",
    "OTHER_CLIENT",
    "OTHER_FLAVOUR",
    "OWNER",
    "STANDSTILL_TEXT",
    "Block",
    "CleanupObligation",
    "Context",
    "ExitStack",
    "Lock",
    "LoopGuard",
    "Signal",
    "StateLock",
    "Task",
    "TasklessRunner",
    "Ticker",
    "WakeEvent",
    "Worker",
    "called",
    "close_at_exit",
    "context",
    "context_name",
    "gather",
    "has_ended",
    "has_tasks",
    "is_background",
    "is_being_cancelled",
    "is_flavoured",
    "keep_for_block",
    "leaves_block",
    "must_be_awaited",
    "refuse_hook",
    "remember_task",
    "run_all_steps",
    "run_for_all",
    "shield",
    "sleep",
    "spawn",
    "spawn_taskless",
    "task_ancestors",
    "wait_for",
]

T = TypeVar("T")
F = TypeVar("F")

FLAVOUR = "asyncio"
OTHER_FLAVOUR = "a plain def"
OTHER_CLIENT = "lockfast.Locks"
OWNER = "task"
STANDSTILL_TEXT = "the event loop was blocked for {seconds:.1f} s (or this process did not run)"
"""Explains why background work woke far too late. Inside a loop, the two causes cannot be told
apart.
"""
INTERRUPTED_ANYWHERE: bool = False
"""Whether an interrupt may strike between any two instructions. In asyncio this is not so, because
a task is cancelled only at an await.
"""

Context = asyncio.Task[Any]


# A task runs alone between two awaits, so this lock never waits. `threading.RLock` is written in C,
# and entering it costs less than entering a Python context manager that does nothing.
StateLock = threading.RLock
Lock = asyncio.Lock


class WakeEvent:
    """An event that any thread may set, like its counterpart in the sync flavour."""

    __slots__ = ("_is_set", "_loop", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._loop = asyncio.get_running_loop()
        self._waiters: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        """Return whether the event has been set."""
        return self._is_set

    def set(self) -> None:
        """Wake all waiters."""
        if _running_loop() is self._loop:
            self._set()
        else:
            try:
                self._loop.call_soon_threadsafe(self._set)
            except RuntimeError:
                # The loop is closed, so no task can be waiting any more.
                return

    def _set(self) -> None:
        self._is_set = True
        for waiter in self._waiters:
            _finish(waiter)

    def clear(self) -> None:
        """Reset the event, so that the next wait blocks."""
        self._is_set = False

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, at most `timeout` seconds of the loop's clock."""
        if self._is_set:
            return True
        # Use a timer of our own, because `asyncio.timeout` works by cancelling the task, and a wait
        # may happen inside a `shield`.
        waiter: asyncio.Future[None] = self._loop.create_future()
        timer = None if timeout is None else self._loop.call_later(timeout, _finish, waiter)
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)
            if timer is not None:
                timer.cancel()
        return self._is_set


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def context() -> Context:
    """Return the current owner context: the running task."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("an AsyncLocks is used inside a task of a running event loop")
    return task


context_name: Callable[[Context], str] = operator.methodcaller("get_name")
"""Return the display name of an owner context. The function is written in C, because every acquire
calls it.
"""


def has_tasks() -> bool:
    """Return whether several tasks share one owner context; never, as each task has its own."""
    return False


def has_ended(task: Context) -> bool:
    """Return whether this owner context has ended."""
    return task.done()


def is_being_cancelled(task: Context) -> bool:
    """Return whether this owner context was cancelled, even if the task has not noticed yet."""
    return task.cancelling() > 0


def is_flavoured(function: Callable[..., object]) -> bool:
    """Return whether a lock of this flavour can decorate the function."""
    return inspect.iscoroutinefunction(function)


async def sleep(seconds: float) -> None:
    """Sleep for this many seconds."""
    await asyncio.sleep(seconds)


async def run_all_steps(*steps: Callable[[], Awaitable[object]]) -> None:
    """Run all cleanup steps in order, even if a step raises; then raise the error of that step."""
    if steps:
        try:
            await steps[0]()
        finally:
            await run_all_steps(*steps[1:])


async def wait_for(event: WakeEvent, *, deadline: float, clock: Clock) -> bool:
    """Wait until the event is set or the deadline has passed; return whether the event is set."""
    while not event.is_set():
        left = deadline - clock.now()
        if left <= 0:
            return False
        await event.wait(min(left, clock.longest_sleep))
    return True


class Signal:
    """A signal that is set once, with a reason; callers can poll it or wait for it."""

    __slots__ = ("_clock", "_event", "reason")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event: WakeEvent | None = None
        self.reason: str | None = None

    def __repr__(self) -> str:
        return f"<Signal {'not set' if self.reason is None else f'set: {self.reason}'}>"

    def is_set(self) -> bool:
        """Return whether the signal has been set."""
        return self.reason is not None

    def set(self, reason: str) -> None:
        """Set the signal; if it was set before, its reason does not change."""
        if self.reason is None:
            self.reason = reason
        if self._event is not None:
            self._event.set()

    @must_be_awaited
    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until the signal is set, at most `timeout` seconds; return whether it is set."""
        if self._event is None:
            self._event = WakeEvent()
        if self.reason is not None:
            self._event.set()
        deadline = FOREVER if timeout is None else self._clock.now() + timeout
        return await wait_for(self._event, deadline=deadline, clock=self._clock)


class Task:
    """A task that was spawned; callers can wait for its end."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    async def join(self) -> None:
        """Wait until the task has ended; return at once if the caller is the task itself."""
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Make the task end at its next await."""
        self._task.cancel()

    def is_alive(self) -> bool:
        """Return whether the task still runs."""
        return not self._task.done()


_is_background: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "lockfast_is_background", default=False
)


def is_background() -> bool:
    """Return whether this runs in a background task, and not in a call of the application."""
    return _is_background.get()


def spawn(function: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> Task:
    """Run the function in the background; no part of it runs before this returns."""
    # Do not use the loop's task factory. An eager factory runs the function, perhaps to its end,
    # before the caller has the task.
    return Task(_start_task(function, name))


def _start_task(function: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
    loop, context = asyncio.get_running_loop(), _background()
    return asyncio.Task(function(), loop=loop, name=name, context=context)


def run_for_all(
    function: Callable[[], Coroutine[Any, Any, None]], *, name: str, ended: WakeEvent
) -> Task:
    """Run the function in its own task, which a cancellation of the caller does not end.

    The event is set when the task has ended, for whatever reason. The function itself could not do
    so, because a task that is cancelled before its first step never runs.
    """
    task = _start_task(function, name)
    task.add_done_callback(lambda _: ended.set())
    return Task(task)


def spawn_taskless(
    function: Callable[[], Coroutine[Any, Any, None]], *, name: str
) -> TasklessRunner:
    """Run the function like `spawn`, but keep it running if the program cancels all tasks.

    The function may wait only for events.
    """
    return TasklessRunner(function(), name=name, context=_background())


def _background() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(_is_background.set, True)
    return context


async def called(hook: Callable[[Any], object], argument: object) -> None:
    """Call a hook; an `async def` runs in a separate task, whose end is waited for."""
    answer = hook(argument)
    if not inspect.iscoroutine(answer):
        return
    # The hook runs in a task, as its author expects. We wait for that task with an event, because
    # the dispatcher itself does not run in a task.
    ended = WakeEvent()
    task = asyncio.Task(answer, loop=asyncio.get_running_loop(), context=_background())
    task.add_done_callback(lambda _: ended.set())
    await ended.wait()
    if not task.cancelled():
        task.result()


def refuse_hook(_hook: object) -> None:
    """Do nothing, because in asyncio a hook may be a plain function or an `async def`."""


def leaves_block(function: F) -> F:
    """Return the method unchanged; only in threads does a `with` statement keep an obligation."""
    return function


def keep_for_block(_manager: object, obligation: CleanupObligation) -> None:
    """Fulfil the obligation, because nothing interrupts a task between two awaits."""
    obligation.fulfil()


class LoopGuard:
    """Binds a client to the event loop that first used it."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def context(self) -> Context:
        """Return the current owner context; raise if the client belongs to another loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.check()
        # Pass the loop, because in Python 3.11 the search for the running loop costs a system call.
        return asyncio.current_task(loop) or context()

    def check(self) -> None:
        """Raise if the client belongs to another loop; the first call binds the client."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise ConfigurationError(
                    "this AsyncLocks belongs to another event loop; make one per loop"
                )
            self._loop = loop

    def call(self, function: Callable[[], None]) -> None:
        """Call the function in the client's loop, at once if possible.

        A call from another thread is made as soon as the loop gets to it.
        """
        loop = self._loop
        if loop is None or _running_loop() is loop:
            function()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed, so nothing waits for the call
            loop.call_soon_threadsafe(function)

    def forget(self) -> None:
        """Forget the parent's loop, in a forked child."""
        self._loop = None


class Block:
    """An `async with` block around a lease; its task is cancelled when the lease is lost.

    As in `asyncio.timeout`, our own cancellation becomes LeaseLost at the end of the block, and any
    other cancellation stays a cancellation.
    """

    __slots__ = ("_cancelling", "_done", "_interrupted", "_left", "_message", "_task")
    can_interrupt = True

    def __init__(self, task: Context) -> None:
        self._task = task
        self._cancelling = task.cancelling()
        self._interrupted = False
        self._left = False
        self._message = ""
        self._done: WakeEvent | None = None

    @property
    def context(self) -> Context:
        """The task that runs the block."""
        return self._task

    def interrupt(self, message: str) -> None:
        """Cancel the body."""
        if self._interrupted or self._left:
            return
        self._message = message
        if self._task is _current_task():
            # The body itself found the loss, in a call to us, and that call reports the loss. The
            # cancellation of a running task takes effect at its next await, which may be after the
            # block. So cancel later, from the loop, where we can see whether the task has left the
            # block.
            asyncio.get_running_loop().call_soon(self._cancel)
        else:
            self._cancel()

    def _cancel(self) -> None:
        if not self._left:
            self._interrupted = True
            self._task.cancel(self._message)

    def leave(self, error: BaseException | None) -> bool:
        """Note that the block is left; return whether our own cancellation ended the body."""
        self._left = True
        if not self._interrupted:
            return False
        return self._task.uncancel() <= self._cancelling and isinstance(
            error, asyncio.CancelledError
        )

    def finish(self) -> None:
        """Record that the block was left and its lease has ended."""
        if self._done is not None:
            self._done.set()

    async def finished(self, *, deadline: float, clock: Clock) -> None:
        """Wait until the interrupted body has left the block."""
        if self._task is not _current_task():
            self._done = WakeEvent()
            await wait_for(self._done, deadline=deadline, clock=clock)


def _current_task() -> Context | None:
    return asyncio.current_task() if _running_loop() is not None else None


def close_at_exit(_one: object) -> None:
    """Do nothing, because no event loop is left when the interpreter exits."""
