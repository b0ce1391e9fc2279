"""The runtime of the sync flavour: threads, real locks, blocking calls."""

from __future__ import annotations

import _thread
import atexit
import contextlib
import inspect
import os
import sys
import threading
import time
import weakref
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lockfast.errors import ConfigurationError
from lockfast.model import FOREVER
from lockfast.runtime.gather import gather_threads as gather
from lockfast.runtime.gather import refuse_without_daemons, start_thread
from lockfast.runtime.interrupts import CleanupObligation, keep_for_block, leaves_block
from lockfast.runtime.timers import ThreadTicker as Ticker
from lockfast.runtime.worker import ThreadWorker as Worker

if TYPE_CHECKING:
    from collections.abc import Callable

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

FLAVOUR = "sync"
OTHER_FLAVOUR = "an async def"
OTHER_CLIENT = "lockfast.AsyncLocks"
OWNER = "thread"
STANDSTILL_TEXT = "this process did not run for {seconds:.1f} s"
"""Explains why background work woke far too late."""
INTERRUPTED_ANYWHERE: bool = True
"""Whether an interrupt, such as an exception from a signal handler, may strike between any two
instructions."""

StateLock = threading.RLock
Lock = threading.Lock
Context = threading.Thread
context: Callable[[], threading.Thread] = threading.current_thread


def has_ended(thread: threading.Thread) -> bool:
    """Return whether this owner context has ended."""
    return not thread.is_alive()


def is_being_cancelled(_thread: threading.Thread) -> bool:
    """Return whether this owner context was cancelled; never, as a thread cannot be cancelled."""
    return False


def context_name(thread: threading.Thread) -> str:
    """Return the display name of an owner context."""
    return thread.name


def remember_task(thread: threading.Thread) -> weakref.ref[threading.Thread]:
    """Return a weak reference to the thread; a thread inherits no holds."""
    return weakref.ref(thread)


def task_ancestors() -> tuple[threading.Thread, ...]:
    """Return an empty tuple, because threads have no ancestors."""
    return ()


def has_tasks() -> bool:
    """Return whether this owner context runs an event loop, so that all tasks share one owner."""
    asyncio = sys.modules.get("asyncio")  # unless asyncio is loaded, there is no event loop
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def must_be_awaited(function: F) -> F:
    """Return the function unchanged, because in threads there is no await to forget."""
    return function


def is_flavoured(function: Callable[..., object]) -> bool:
    """Return whether a lock of this flavour can decorate the function."""
    # Refuse functions whose code runs after the call has returned, because it would run without the
    # lock. This includes an object whose `__call__` is an async def. Generators were refused
    # earlier.
    call = getattr(type(function), "__call__", None)  # noqa: B004 - the attribute itself is needed
    return not any(inspect.iscoroutinefunction(one) for one in (function, call))


class WakeEvent:
    """Like `threading.Event`, but with nothing to lock or notify while no thread waits.

    An event is created for every waiting claim, and most events are set by the same thread that
    would wait.
    """

    __slots__ = ("_gates", "_is_set", "_is_woken")

    def __init__(self) -> None:
        self._is_set = False
        self._is_woken = False
        self._gates: list[threading.Lock] = []

    def is_set(self) -> bool:
        """Return whether the event has been set."""
        return self._is_set

    def set(self) -> None:
        """Wake all waiters."""
        # Set the flag first, then look at the gates. `wait` adds its gate first, then looks at the
        # flag. So at least one of the two methods sees what the other has done.
        self._is_set = True
        self._open_gates()

    def wake_to_check(self) -> None:
        """Wake the current waiters, or the next one, without setting the event."""
        self._is_woken = True
        self._open_gates()

    def _open_gates(self) -> None:
        while self._gates:
            with contextlib.suppress(IndexError):  # another thread has taken the gate
                self._gates.pop().release()

    def clear(self) -> None:
        """Reset the event, so that the next wait blocks."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, or for `timeout` seconds; `wake_to_check` also ends it."""
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        try:
            if not (self._is_set or self._is_woken):
                gate.acquire(timeout=-1 if timeout is None else timeout)
            return self._is_set
        finally:
            self._is_woken = False
            with contextlib.suppress(ValueError):  # the gate has already been removed and opened
                self._gates.remove(gate)


def shield(result: T) -> T:
    """Return the result; a thread cannot be cancelled, so no shield is needed."""
    return result


def sleep(seconds: float) -> None:
    """Sleep for this many seconds."""
    time.sleep(seconds)


def run_all_steps(*steps: Callable[[], object]) -> None:
    """Run all cleanup steps in order, even if a step raises; then raise the error of that step."""
    # Do not use an ExitStack. The frame of an ExitStack keeps the exception alive until the garbage
    # collector runs, and with the exception everything that an interrupt left open.
    if steps:
        try:
            steps[0]()
        finally:
            run_all_steps(*steps[1:])


def wait_for(event: WakeEvent, *, deadline: float, clock: Clock) -> bool:
    """Wait until the event is set or the deadline has passed; return whether the event is set."""
    while not event.is_set():
        left = deadline - clock.now()
        if left <= 0:
            return False
        event.wait(min(left, clock.longest_sleep))
    return True


# All signals share one lock, under which the first two threads that wait for a signal agree on one
# event. The lock is re-entrant, because a signal handler may wait for a signal while its thread
# holds the lock.
_event_creation = threading.RLock()


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

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the signal is set, at most `timeout` seconds; return whether it is set."""
        with _event_creation:
            if self._event is None:
                # Create the event on demand, because a WakeEvent costs more than all the rest of a
                # lease.
                self._event = WakeEvent()
        if self.reason is not None:
            self._event.set()
        deadline = FOREVER if timeout is None else self._clock.now() + timeout
        return wait_for(self._event, deadline=deadline, clock=self._clock)


class Task:
    """A thread that was spawned; callers can wait for its end."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread
        self._process = os.getpid()
        self.has_ended = False

    def join(self) -> None:
        """Wait until the thread has ended; return at once if the caller is the thread itself."""
        if self._thread is not threading.current_thread():
            self._thread.join()

    def cancel(self) -> None:
        """Do nothing, because a thread cannot be cancelled."""

    def is_alive(self) -> bool:
        """Return whether the thread still runs; a forked child has no such thread."""
        # Do not ask the thread itself. An interrupt in the middle of `Thread.is_alive` makes Python
        # believe, for good, that the thread has ended, and we would start a second thread besides
        # the first.
        return not self.has_ended and self._process == os.getpid()


TasklessRunner = Task

_here = threading.local()


def is_background() -> bool:
    """Return whether this runs in a background thread, and not in a call of the application."""
    return getattr(_here, "is_background", False)


def spawn(function: Callable[[], None], *, name: str) -> Task:
    """Run the function in a background thread, which does not keep the interpreter alive."""

    def work() -> None:
        _here.is_background = True
        try:
            function()
        finally:
            task.has_ended = True

    thread = threading.Thread(target=work, name=name, daemon=True)
    task = Task(thread)
    start_thread(thread)
    return task


def run_for_all(function: Callable[[], None], *, name: str, ended: WakeEvent) -> Task | None:
    """Run the function on the caller's thread, which cannot be cancelled; a new thread costs more.

    The event is set when the function has ended, for whatever reason.
    """
    del name
    try:
        function()
    finally:
        ended.set()
    return None


spawn_taskless = spawn  # no thread can be cancelled


def called(hook: Callable[[Any], object], argument: object) -> None:
    """Call a hook and ignore its result."""
    hook(argument)


def refuse_hook(hook: object) -> None:
    """Raise if the hook cannot run in this flavour."""
    if inspect.iscoroutinefunction(hook):
        raise ConfigurationError(
            f"the hook {hook!r} is an async def, and this is the sync flavour; make it a plain "
            "def, or use lockfast.AsyncLocks"
        )


# gevent may replace this function later. Keep the one that was in place when our modules imported
# Python's locks, events and sleeps.
_ALLOCATE_LOCK = _thread.allocate_lock


def _refuse_patched() -> None:
    """Raise if greenlets that do not work with Lockfast have replaced this process's threads."""
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("socket"):
        raise ConfigurationError(
            "eventlet has replaced Python's sockets and threads with its own, which Lockfast does "
            "not work with; plain threads, gevent and asyncio are supported"
        )
    gevent = sys.modules.get("gevent.monkey")
    is_late = _thread.allocate_lock is not _ALLOCATE_LOCK
    if is_late and gevent is not None and gevent.is_module_patched("threading"):
        raise ConfigurationError(
            "gevent has replaced Python's threads after lockfast was imported, so waiting for a "
            "lock would stop every greenlet, and leases would not be renewed; call "
            "gevent.monkey.patch_all() first and import lockfast after it. With gunicorn "
            "--preload -k gevent, call it at the top of gunicorn's configuration file, or leave "
            "out --preload"
        )


class LoopGuard:
    """Accepts any thread, native or gevent's, because a sync client belongs to no event loop."""

    def __init__(self) -> None:
        refuse_without_daemons()
        _refuse_patched()

    def context(self) -> Context:
        """Return the current owner context.

        Replaced threads are looked for at each acquire. With --preload, gunicorn forks first and
        replaces the threads afterwards, so neither the creation of the client nor the end of the
        fork would be late enough.
        """
        self.check()
        return threading.current_thread()

    def check(self) -> None:
        """Raise if unsupported greenlets have replaced the threads; otherwise accept any thread."""
        if _thread.allocate_lock is not _ALLOCATE_LOCK:
            _refuse_patched()

    def call(self, function: Callable[[], None]) -> None:
        """Call the function; a sync client works in every thread."""
        function()

    def forget(self) -> None:
        """Do nothing, because a sync client belongs to no thread."""


class Block:
    """A `with` block around a lease; a thread cannot be interrupted from outside."""

    __slots__ = ("_thread",)
    can_interrupt = False

    def __init__(self, thread: Context) -> None:
        self._thread = thread

    @property
    def context(self) -> Context:
        """The thread that runs the block."""
        return self._thread

    def interrupt(self, _message: str) -> None:
        """Do nothing; the body learns of the loss when it calls `check()` or leaves the block."""

    def leave(self, _error: BaseException | None) -> bool:
        """Return whether our own cancellation ended the body; never, as threads have none."""
        return False

    def finish(self) -> None:
        """Do nothing, because nothing waits for the end of a thread's block."""

    def finished(self, *, deadline: float, clock: Clock) -> None:
        """Do nothing, because no body is ever interrupted."""


class Closable(Protocol):
    """Something that can be closed."""

    def close(self) -> None:
        """Release all resources."""


# This is module state, because the interpreter exits only once.
_open: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(one: Closable) -> None:
    """Close the object when the interpreter exits, unless the object is gone by then."""
    _open.add(one)


@atexit.register
def _close_all() -> None:
    for one in list(_open):
        one.close()
