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
from lockfast.runtime.awaiting import must_be_awaited
from lockfast.runtime.gathering import gather_tasks as gather
from lockfast.runtime.leaving import Owing
from lockfast.runtime.lineage import parents, remember_context
from lockfast.runtime.lookout import Lookout
from lockfast.runtime.rounds import TaskRounds as Rounds
from lockfast.runtime.shielding import shield
from lockfast.runtime.working import TaskWorker as Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from lockfast.runtime.clock import Clock

__all__ = [
    "FLAVOUR",
    "OTHER_CLIENT",
    "OTHER_FLAVOUR",
    "OWNER",
    "STOOD_STILL",
    "STRUCK_ANYWHERE",
    "Block",
    "Context",
    "Event",
    "ExitStack",
    "Lock",
    "Lookout",
    "LoopGuard",
    "Owing",
    "Rounds",
    "Signal",
    "StateLock",
    "Task",
    "Worker",
    "called",
    "close_at_exit",
    "context",
    "context_name",
    "each_in_turn",
    "gather",
    "has_ended",
    "has_tasks",
    "is_background",
    "is_being_cancelled",
    "is_flavoured",
    "keep_for_block",
    "leaves_block",
    "must_be_awaited",
    "parents",
    "refuse_hook",
    "remember_context",
    "shield",
    "sleep",
    "spawn",
    "spawn_lookout",
    "undertake",
    "wait_for",
]

T = TypeVar("T")
F = TypeVar("F")

FLAVOUR = "asyncio"
OTHER_FLAVOUR = "a plain def"
OTHER_CLIENT = "lockfast.Locks"
OWNER = "task"
STOOD_STILL = "the event loop was blocked for {seconds:.1f} s (or this process did not run)"
"""What it means if the background wakes up much too late. A loop cannot tell the two apart."""
STRUCK_ANYWHERE: bool = False
"""Whether an interrupt may strike between any two instructions; a task is cancelled at an await."""

Context = asyncio.Task[Any]


# Between two awaits a task is alone, so this never waits; the one of `threading` is in C, and
# entering it costs less than a context manager in Python that does nothing.
StateLock = threading.RLock
Lock = asyncio.Lock


class Event:
    """An event that may be set from any thread, as its sync twin may."""

    __slots__ = ("_is_set", "_loop", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._loop = asyncio.get_running_loop()
        self._waiters: list[asyncio.Future[None]] = []

    def is_set(self) -> bool:
        """Whether it has been set."""
        return self._is_set

    def set(self) -> None:
        """Wake whoever waits."""
        if _running_loop() is self._loop:
            self._set()
        else:
            try:
                self._loop.call_soon_threadsafe(self._set)
            except RuntimeError:
                # The loop is closed: nobody can be waiting in it any more.
                return

    def _set(self) -> None:
        self._is_set = True
        for waiter in self._waiters:
            _finish(waiter)

    def clear(self) -> None:
        """Let the next wait wait."""
        self._is_set = False

    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most `timeout` seconds of the loop's clock."""
        if self._is_set:
            return True
        # A timer of our own: `asyncio.timeout` works by cancelling the task, and a wait may
        # stand inside a `shield`.
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
"""Return how people know this owner context; in C, as it is asked for at every acquire."""


def has_tasks() -> bool:
    """Whether several tasks are one owner context here: never, each is one of its own."""
    return False


def has_ended(task: Context) -> bool:
    """Whether nobody is left of this owner context."""
    return task.done()


def is_being_cancelled(task: Context) -> bool:
    """Whether this owner context was told to end, and may not know it yet."""
    return task.cancelling() > 0


def is_flavoured(function: Callable[..., object]) -> bool:
    """Whether a lock of this flavour can decorate the function."""
    return inspect.iscoroutinefunction(function)


async def sleep(seconds: float) -> None:
    """Do nothing for so long."""
    await asyncio.sleep(seconds)


async def each_in_turn(*steps: Callable[[], Awaitable[object]]) -> None:
    """Do each step of an end, in order and whatever the one before raised; then raise that."""
    if steps:
        try:
            await steps[0]()
        finally:
            await each_in_turn(*steps[1:])


async def wait_for(event: Event, *, deadline: float, clock: Clock) -> bool:
    """Wait until the event is set or the deadline has passed; true if it is set."""
    while not event.is_set():
        left = deadline - clock.now()
        if left <= 0:
            return False
        await event.wait(min(left, clock.longest_sleep))
    return True


class Signal:
    """Set once, with a reason; can be asked or waited for."""

    __slots__ = ("_clock", "_event", "reason")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._event: Event | None = None
        self.reason: str | None = None

    def __repr__(self) -> str:
        return f"<Signal {'not set' if self.reason is None else f'set: {self.reason}'}>"

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self.reason is not None

    def set(self, reason: str) -> None:
        """Say that it happened; the first reason stays."""
        if self.reason is None:
            self.reason = reason
        if self._event is not None:
            self._event.set()

    @must_be_awaited
    async def wait(self, timeout: float | None = None) -> bool:
        """Wait until it happens, at most `timeout` seconds; true if it has."""
        if self._event is None:
            self._event = Event()
        if self.reason is not None:
            self._event.set()
        deadline = float("inf") if timeout is None else self._clock.now() + timeout
        return await wait_for(self._event, deadline=deadline, clock=self._clock)


class Task:
    """A task that was spawned, and can be waited for."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    async def join(self) -> None:
        """Wait until it has ended, unless it is the caller itself."""
        if self._task is not asyncio.current_task():
            await asyncio.wait([self._task])

    def cancel(self) -> None:
        """Let it end at its next await."""
        self._task.cancel()

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return not self._task.done()


_is_background: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "lockfast_is_background", default=False
)


def is_background() -> bool:
    """Whether this runs in something that was spawned, and not in a call of the application."""
    return _is_background.get()


def spawn(function: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> Task:
    """Run the function beside the caller; never a step of it before this returns."""
    # Not by the loop's task factory: an eager one runs the function, perhaps to its end, before
    # the caller knows what it has spawned.
    return Task(_begun(function, name))


def _begun(function: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
    loop, context = asyncio.get_running_loop(), _background()
    return asyncio.Task(function(), loop=loop, name=name, context=context)


def undertake(
    function: Callable[[], Coroutine[Any, Any, None]], *, name: str, ended: Event
) -> Task:
    """Do it in a task of its own, which a cancellation of the caller does not end.

    The event is set when it has ended, whatever ended it: a task can be cancelled before its
    first step, and then does not take one.
    """
    task = _begun(function, name)
    task.add_done_callback(lambda _: ended.set())
    return Task(task)


def spawn_lookout(function: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> Lookout:
    """As `spawn`, but it outlasts a program that cancels all tasks, and waits for events alone."""
    return Lookout(function(), name=name, context=_background())


def _background() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(_is_background.set, True)
    return context


async def called(hook: Callable[[Any], object], argument: object) -> None:
    """Call a hook; one that is an `async def` runs in a task of its own, and is waited for."""
    answer = hook(argument)
    if not inspect.iscoroutine(answer):
        return
    # In a task, as its author expects; waited for by an event, since whoever delivers has none.
    ended = Event()
    task = asyncio.Task(answer, loop=asyncio.get_running_loop(), context=_background())
    task.add_done_callback(lambda _: ended.set())
    await ended.wait()
    if not task.cancelled():
        task.result()


def refuse_hook(_hook: object) -> None:
    """Do nothing: a hook may be a plain function, or an `async def`."""


def leaves_block(function: F) -> F:
    """Mark the method that leaves a block; its twin lets `with` keep something until then."""
    return function


def keep_for_block(_manager: object, owing: Owing) -> None:
    """Rely on the block to be left: nothing interrupts a task between two awaits."""
    owing.fulfil()


class LoopGuard:
    """Where a client lives: the event loop that first used it."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def context(self) -> Context:
        """Return the current owner context, as `context` does; refuse a second loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self.check()
        # Told which loop: to ask which one is running costs Python 3.11 a system call.
        return asyncio.current_task(loop) or context()

    def check(self) -> None:
        """Refuse a second loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                raise ConfigurationError(
                    "this AsyncLocks belongs to another event loop; make one per loop"
                )
            self._loop = loop

    def call(self, function: Callable[[], None]) -> None:
        """Call it where the client lives: now, or, from another thread, as soon as can be."""
        loop = self._loop
        if loop is None or _running_loop() is loop:
            function()
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is told there
            loop.call_soon_threadsafe(function)

    def forget(self) -> None:
        """Live nowhere yet, in a forked child."""
        self._loop = None


class Block:
    """An `async with` block around a lease; its task is cancelled when the lease is lost.

    The same dance as `asyncio.timeout`: our cancellation becomes LeaseLost where the
    block is left, and somebody else's cancellation stays one.
    """

    __slots__ = ("_cancelling", "_done", "_interrupted", "_left", "_message", "_task")
    can_interrupt = True

    def __init__(self, task: Context) -> None:
        self._task = task
        self._cancelling = task.cancelling()
        self._interrupted = False
        self._left = False
        self._message = ""
        self._done: Event | None = None

    @property
    def context(self) -> Context:
        """Whose block it is."""
        return self._task

    def interrupt(self, message: str) -> None:
        """Cancel the body."""
        if self._interrupted or self._left:
            return
        self._message = message
        if self._task is _current_task():
            # The body itself found the loss in a call of ours, and hears of it there.
            # Cancelling a running task strikes at its next await, which may be after it
            # has left the block; asking the loop to do it lets us see that it has left.
            asyncio.get_running_loop().call_soon(self._cancel)
        else:
            self._cancel()

    def _cancel(self) -> None:
        if not self._left:
            self._interrupted = True
            self._task.cancel(self._message)

    def leave(self, error: BaseException | None) -> bool:
        """Whether the error that ends the body is our own interruption."""
        self._left = True
        if not self._interrupted:
            return False
        return self._task.uncancel() <= self._cancelling and isinstance(
            error, asyncio.CancelledError
        )

    def finish(self) -> None:
        """Say that the block was left and its lease ended."""
        if self._done is not None:
            self._done.set()

    async def finished(self, *, deadline: float, clock: Clock) -> None:
        """Wait until the interrupted body has left the block."""
        if self._task is not _current_task():
            self._done = Event()
            await wait_for(self._done, deadline=deadline, clock=clock)


def _current_task() -> Context | None:
    return asyncio.current_task() if _running_loop() is not None else None


def close_at_exit(_one: object) -> None:
    """Do nothing: when the interpreter exits there is no loop left to close in."""
