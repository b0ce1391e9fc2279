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
from lockfast.runtime.gathering import gather_threads as gather
from lockfast.runtime.leaving import Owing, keep_for_block, leaves_block
from lockfast.runtime.rounds import ThreadRounds as Rounds
from lockfast.runtime.starting import refuse_without_daemons, start
from lockfast.runtime.working import ThreadWorker as Worker

if TYPE_CHECKING:
    from collections.abc import Callable

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

FLAVOUR = "sync"
OTHER_FLAVOUR = "an async def"
OTHER_CLIENT = "lockfast.AsyncLocks"
OWNER = "thread"
STOOD_STILL = "this process did not run for {seconds:.1f} s"
"""What it means if the background wakes up much too late."""
STRUCK_ANYWHERE: bool = True
"""Whether an interrupt may strike between any two instructions: a signal's exception, say."""

StateLock = threading.RLock
Lock = threading.Lock
Context = threading.Thread
context: Callable[[], threading.Thread] = threading.current_thread


def has_ended(thread: threading.Thread) -> bool:
    """Whether nobody is left of this owner context."""
    return not thread.is_alive()


def is_being_cancelled(_thread: threading.Thread) -> bool:
    """Whether this owner context was told to end: no thread can be."""
    return False


def context_name(thread: threading.Thread) -> str:
    """Return how people know this owner context."""
    return thread.name


def remember_context(thread: threading.Thread) -> weakref.ref[threading.Thread]:
    """Return the thread, weakly; none inherits what its starter held."""
    return weakref.ref(thread)


def parents() -> tuple[threading.Thread, ...]:
    """Return nobody: see `remember_context`."""
    return ()


def has_tasks() -> bool:
    """Whether this owner context runs an event loop, whose tasks are all one owner then."""
    asyncio = sys.modules.get("asyncio")  # a program without it has no loop of its
    try:
        return asyncio is not None and asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def must_be_awaited(function: F) -> F:
    """Return it: in threads a call has the answer, and nothing can be forgotten."""
    return function


def is_flavoured(function: Callable[..., object]) -> bool:
    """Whether a lock of this flavour can decorate the function."""
    # What runs after the call has returned would run without the lock: also the coroutine of an
    # object whose __call__ is an async def. Generators were refused before.
    call = getattr(type(function), "__call__", None)  # noqa: B004 - what it is, not whether
    return not any(inspect.iscoroutinefunction(one) for one in (function, call))


class Event:
    """As `threading.Event`, but while nobody waits there is nothing to lock and to notify.

    One is made for every claim that waits, and most are set by the very thread that waits.
    """

    __slots__ = ("_gates", "_is_nudged", "_is_set")

    def __init__(self) -> None:
        self._is_set = False
        self._is_nudged = False
        self._gates: list[threading.Lock] = []

    def is_set(self) -> bool:
        """Whether it has been set."""
        return self._is_set

    def set(self) -> None:
        """Wake whoever waits."""
        # Before the gates are looked at, as a gate is added before this is: one sees the other.
        self._is_set = True
        self._open_gates()

    def nudge(self) -> None:
        """Let whoever waits, or waits next, look around although it is not set."""
        self._is_nudged = True
        self._open_gates()

    def _open_gates(self) -> None:
        while self._gates:
            with contextlib.suppress(IndexError):  # another thread was quicker
                self._gates.pop().release()

    def clear(self) -> None:
        """Let the next wait wait."""
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most `timeout` seconds; a nudge ends the wait too."""
        gate = threading.Lock()
        gate.acquire()
        self._gates.append(gate)
        try:
            if not (self._is_set or self._is_nudged):
                gate.acquire(timeout=-1 if timeout is None else timeout)
            return self._is_set
        finally:
            self._is_nudged = False
            with contextlib.suppress(ValueError):  # it was opened
                self._gates.remove(gate)


def shield(result: T) -> T:
    """Return the result: a thread cannot be cancelled, so nothing is to be shielded."""
    return result


def sleep(seconds: float) -> None:
    """Do nothing for so long."""
    time.sleep(seconds)


def each_in_turn(*steps: Callable[[], object]) -> None:
    """Do each step of an end, in order and whatever the one before raised; then raise that."""
    # Not by an ExitStack: its frame keeps the exception, and with it all that an interrupt left
    # unclosed, until the collector comes.
    if steps:
        try:
            steps[0]()
        finally:
            each_in_turn(*steps[1:])


def wait_for(event: Event, *, deadline: float, clock: Clock) -> bool:
    """Wait until the event is set or the deadline has passed; true if it is set."""
    while not event.is_set():
        left = deadline - clock.now()
        if left <= 0:
            return False
        event.wait(min(left, clock.longest_sleep))
    return True


# One for all signals: two threads that wait first must share one event.
# Re-entrant: a signal handler may wait for a signal while its thread is in here.
_making_events = threading.RLock()


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

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it happens, at most `timeout` seconds; true if it has."""
        with _making_events:
            if self._event is None:
                # Made on demand: an Event costs more than the rest of a lease together.
                self._event = Event()
        if self.reason is not None:
            self._event.set()
        deadline = float("inf") if timeout is None else self._clock.now() + timeout
        return wait_for(self._event, deadline=deadline, clock=self._clock)


class Task:
    """A thread that was spawned, and can be waited for."""

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread
        self._process = os.getpid()
        self.has_ended = False

    def join(self) -> None:
        """Wait until it has ended, unless it is the caller itself."""
        if self._thread is not threading.current_thread():
            self._thread.join()

    def cancel(self) -> None:
        """Do nothing: a thread cannot be cancelled."""

    def is_alive(self) -> bool:
        """Whether it still runs; false in a forked child, which has no such thread."""
        # Not by asking the thread: an interrupt in the middle of that lets Python take it for
        # ended, for good, and a second one would be started beside it.
        return not self.has_ended and self._process == os.getpid()


Lookout = Task

_here = threading.local()


def is_background() -> bool:
    """Whether this runs in something that was spawned, and not in a call of the application."""
    return getattr(_here, "is_background", False)


def spawn(function: Callable[[], None], *, name: str) -> Task:
    """Run the function beside the caller; it does not keep the interpreter alive."""

    def work() -> None:
        _here.is_background = True
        try:
            function()
        finally:
            task.has_ended = True

    thread = threading.Thread(target=work, name=name, daemon=True)
    task = Task(thread)
    start(thread)
    return task


def undertake(function: Callable[[], None], *, name: str, ended: Event) -> Task | None:
    """Do it here: nobody can cancel the caller, and a thread of its own would cost more.

    The event is set when it has ended, whatever ended it.
    """
    del name
    try:
        function()
    finally:
        ended.set()
    return None


spawn_lookout = spawn  # no thread can be cancelled


def called(hook: Callable[[Any], object], argument: object) -> None:
    """Call a hook; what it returns is nobody's."""
    hook(argument)


def refuse_hook(hook: object) -> None:
    """Raise if nobody here could run the hook."""
    if inspect.iscoroutinefunction(hook):
        raise ConfigurationError(
            f"the hook {hook!r} is an async def, and this is the sync flavour; make it a plain "
            "def, or use lockfast.AsyncLocks"
        )


# What gevent replaces, as it was when our modules took Python's locks, events and sleeps.
_ALLOCATE_LOCK = _thread.allocate_lock


def _refuse_patched() -> None:
    """Raise if the threads of this process were replaced by greenlets that we cannot live with."""
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
    """Where a client lives: any thread, real or of gevent's making."""

    def __init__(self) -> None:
        refuse_without_daemons()
        _refuse_patched()

    def context(self) -> Context:
        """Return the current owner context.

        At each acquire, since gunicorn with --preload forks first and patches then: nothing is to
        be seen when the client is made, nor when the fork is over.
        """
        self.check()
        return threading.current_thread()

    def check(self) -> None:
        """Refuse what was replaced meanwhile; a sync client serves every thread."""
        if _thread.allocate_lock is not _ALLOCATE_LOCK:
            _refuse_patched()

    def call(self, function: Callable[[], None]) -> None:
        """Call it: a sync client lives in every thread."""
        function()

    def forget(self) -> None:
        """Do nothing: see `call`."""


class Block:
    """A `with` block around a lease; a thread cannot be interrupted from outside."""

    __slots__ = ("_thread",)
    can_interrupt = False

    def __init__(self, thread: Context) -> None:
        self._thread = thread

    @property
    def context(self) -> Context:
        """Whose block it is."""
        return self._thread

    def interrupt(self, _message: str) -> None:
        """Do nothing: the body learns of the loss from `check()` or when it leaves."""

    def leave(self, _error: BaseException | None) -> bool:
        """Whether the error that ends the body is our own interruption: never."""
        return False

    def finish(self) -> None:
        """Do nothing: nobody waits for a thread's block."""

    def finished(self, *, deadline: float, clock: Clock) -> None:
        """Do nothing: see `can_interrupt`."""


class Closable(Protocol):
    """Something that lets go when it is told to."""

    def close(self) -> None:
        """Let go."""


# Module state, because the interpreter's exit is one for all.
_open: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(one: Closable) -> None:
    """Close it when the interpreter exits, if it still lives then."""
    _open.add(one)


@atexit.register
def _close_all() -> None:
    for one in list(_open):
        one.close()
