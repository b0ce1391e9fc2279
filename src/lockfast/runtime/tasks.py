"""For asyncio only: results that must be awaited, ancestors of tasks, shields, timers."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import sys
import types
import weakref
from collections.abc import Coroutine, Generator
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from lockfast.model import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

# The ancestors of a task that took leases. Only asyncio needs these, because threads inherit
# nothing.
#
# A child task is a different owner than its parent. If the child waits for a lock that the parent
# holds, this should be reported.

Context = asyncio.Task[Any]


class _Lineage(weakref.ref[Context]):
    """A weak reference to a task that took a lease, with a link to the nearest live ancestor.

    One object is both reference and link, so that the garbage collector has less to visit: holds
    refer to the task through the same object.
    """

    __slots__ = ("parent",)

    parent: _Lineage | None


# A child task starts with a copy of its parent's context, and so finds its parent in this variable.
_lineage: contextvars.ContextVar[_Lineage | None] = contextvars.ContextVar(
    "lockfast_lineage", default=None
)


def remember_task(task: Context) -> weakref.ref[Context]:
    """Record for later child tasks that the task took a lease; return a weak reference to it."""
    lineage = _lineage.get()
    if lineage is not None and lineage() is task:
        return lineage
    while lineage is not None and lineage() is None:
        lineage = lineage.parent
    latest = _Lineage(task)
    latest.parent = lineage
    _lineage.set(latest)
    return latest


def task_ancestors() -> tuple[Context, ...]:
    """Return the live ancestors of the current task that took leases."""
    found = []
    lineage = _lineage.get()
    current = asyncio.current_task()
    while lineage is not None:
        task = lineage()
        if task is not None and task is not current:
            found.append(task)
        lineage = lineage.parent
    return tuple(found)


# A coroutine that runs without a task, so that cancelling all tasks does not end it.
#
# Programs cancel every task of their loop when they shut down, as does `asyncio.run`. But the
# bodies of blocks may run a while longer under their leases, and the watchdog has to run until they
# end. It cannot be a task that ignores its cancellation, because `asyncio.run` would never return.
# This runner simply disappears with the loop.


class TasklessRunner:
    """Runs a coroutine with callbacks of the loop; the coroutine may wait only for futures."""

    def __init__(
        self, work: Coroutine[Any, Any, None], *, name: str, context: contextvars.Context
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._work = work
        self._name = name
        self._context = context
        self._ended = self._loop.create_future()
        self._loop.call_soon(self._step, context=context)

    def _step(self, _done: object = None) -> None:
        try:
            future = self._work.send(None)
        except StopIteration:
            self._end()
        except (SystemExit, KeyboardInterrupt):
            self._end()
            raise
        except BaseException as error:  # noqa: BLE001 - reported as the loop does for a task
            self._end()
            message = f"{self._name} ended"
            self._loop.call_exception_handler({"message": message, "exception": error})
        else:
            self._wait_for(future)

    def _wait_for(self, future: asyncio.Future[Any] | None) -> None:
        if future is None:  # a bare yield to the loop, as in sleep(0)
            self._loop.call_soon(self._step, context=self._context)
            return
        # This is the protocol between a future and its awaiter; see asyncio.Task.
        future._asyncio_future_blocking = False  # noqa: SLF001
        future.add_done_callback(self._step, context=self._context)

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def join(self) -> None:
        """Wait until the coroutine has ended."""
        if not self._ended.done():
            await asyncio.wait([self._ended])

    def is_alive(self) -> bool:
        """Return whether the coroutine still runs."""
        return not self._ended.done()


T = TypeVar("T")


# Work that a cancellation of the caller does not interrupt, without a separate task.


@types.coroutine
def shield(work: Coroutine[Any, Any, T]) -> Generator[Any, None, T]:
    """Finish the work even if the caller is cancelled; the cancellation takes effect afterwards.

    `asyncio.timeout` has no effect inside the work, because such a timeout is a cancellation too.

    The work runs in the caller's own task, because `asyncio.shield` needs a separate task, which
    would cost more than a release. Each future for which the work waits is presented to the task as
    a future that refuses to be cancelled. So the task holds back a cancellation until that future
    is done.
    """
    task: Any = asyncio.current_task()
    # A cancellation that was requested while the task was running takes effect at our first wait,
    # so we must hold it back too.
    before = task.cancelling() - task._must_cancel  # noqa: SLF001
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            future: Any = work.send(None)
        except StopIteration as end:
            # If the count has not grown, the work cancelled the task itself, and has undone this.
            if cancelled is not None and task.cancelling() > before:
                raise cancelled from None
            result: T = end.value
            return result
        except BaseException as error:
            if cancelled is None or task.cancelling() <= before:
                raise
            cancelled.add_note(f"and what it interrupted failed: {error}")
            raise cancelled from error
        try:
            # None is a bare yield to the loop, as in sleep(0). A nested shield has already wrapped
            # its future.
            is_future = future is not None and future.__class__ is not _Uncancellable
            yield _Uncancellable(future) if is_future else future
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            # This is the error of the future itself, which the work will get from the future.
            if future is None or not future.done():
                raise


class _Uncancellable:
    """A future that refuses to be cancelled, in a form that a task can await; see asyncio.Task."""

    __slots__ = ("_asyncio_future_blocking", "_future", "_loop")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        # A task and the future that it awaits follow this protocol. Our object takes the place of
        # the future.
        future._asyncio_future_blocking = False  # noqa: SLF001
        self._asyncio_future_blocking = True
        self._future = future
        self._loop = future.get_loop()

    def add_done_callback(self, callback: Any, *, context: Any = None) -> None:  # noqa: ANN401
        self._future.add_done_callback(callback, context=context)

    def done(self) -> bool:
        return self._future.done()

    def cancel(self, msg: object = None) -> bool:
        del msg
        return False


# Results that have to be awaited, because they decide whether the caller may continue.
#
# A plain coroutine is truthy. So `if lock.try_acquire():`, without an `await`, enters the body
# without the lock, and Python warns only later that a coroutine was never awaited. The truth test
# of these results raises instead.

P = ParamSpec("P")
T_co = TypeVar("T_co", covariant=True)


class MustAwait(Coroutine[Any, Any, T_co]):
    """A coroutine in all respects but one: a test of its truth value raises."""

    __slots__ = ("__weakref__", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T_co]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T_co]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:  # noqa: ANN401 - as for any coroutine
        """Resume the coroutine, as a task does."""
        return self._coroutine.send(value)

    def throw(
        self,
        typ: Any,  # noqa: ANN401 - an exception, or its class
        val: BaseException | object = None,
        tb: TracebackType | None = None,
    ) -> Any:  # noqa: ANN401
        """Resume the coroutine with an exception, as a task does to cancel it."""
        if val is None and tb is None:
            return self._coroutine.throw(typ)
        return self._coroutine.throw(typ, val, tb)

    def close(self) -> None:
        """End the coroutine; if it never ran, this prevents Python's warning."""
        self._coroutine.close()

    if TYPE_CHECKING:

        def __bool__(self) -> NoReturn: ...  # makes pyright report the mistake

    else:

        def __bool__(self) -> bool:
            has_begun = inspect.getcoroutinestate(self._coroutine) != inspect.CORO_CREATED
            if has_begun or _is_asyncio(sys._getframe(1)):  # noqa: SLF001 - the only way to it
                # A task has the coroutine already: the coroutine has begun, or asyncio tests
                # whether a task has a coroutine, as in the `repr` of a task.
                return True
            return self._refuse()

        def _refuse(self, *_: object) -> NoReturn:
            self.close()  # otherwise Python would also warn about the missing await
            name = self._coroutine.__qualname__
            raise TypeError(
                f"the result of {name}() was used without `await`, so the store was never asked: "
                f"write `await ...{name.rpartition('.')[2]}(...)`"
            )

        # `async with lock.acquire():` is the same mistake, and so is unpacking the result of
        # `all()` without `await`.
        __aenter__ = __aexit__ = __iter__ = _refuse

        # Hide this from type checkers, because they would then accept every attribute, including
        # those of a generator.
        def __getattr__(self, name: str) -> object:
            # Debuggers and asyncio's reports read `cr_frame`, `cr_code` and `__qualname__`.
            return getattr(self._coroutine, name)

    def __repr__(self) -> str:
        return repr(self._coroutine)


def _is_asyncio(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "asyncio"


def must_be_awaited(
    function: Callable[P, Coroutine[Any, Any, T_co]],
) -> Callable[P, MustAwait[T_co]]:
    """Decorate a method so that using its result without `await` raises."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> MustAwait[T_co]:
        return MustAwait(function(*args, **kwargs))

    # This makes `AsyncMock(spec=AsyncLock)` still recognise a coroutine function.
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(call)
    call._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]  # noqa: SLF001
    return call


# A single timer of the loop for many deadlines, because a timer for each deadline would cost more
# than a request.


class SharedTimer:
    """Calls `look` at the earliest of the times that it was given, then forgets all of them."""

    __slots__ = ("_handle", "_look", "_loop", "moment")

    def __init__(self, look: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._look = look
        self._handle: asyncio.TimerHandle | None = None
        self.moment: float = FOREVER
        """The time at which `look` is called next."""

    def at(self, moment: float) -> None:
        """Call `look` at this time of the loop's clock, or earlier."""
        if moment < self.moment:
            self.cancel()
            self._handle, self.moment = self._loop.call_at(moment, self._ring), moment

    def _ring(self) -> None:
        self._handle, self.moment = None, FOREVER
        self._look()

    def cancel(self) -> None:
        """Cancel the pending call."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle, self.moment = None, FOREVER
