"""Work that a cancellation of its caller does not reach, without a task of its own."""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


@types.coroutine
def shield(work: Coroutine[Any, Any, T]) -> Generator[Any, None, T]:
    """Finish the work even if the caller is cancelled meanwhile, then let it be cancelled.

    `asyncio.timeout` has no effect inside the work: it is a cancellation too.

    It drives the work in the caller's own task, and keeps cancellations from it: `asyncio.shield`
    needs a task of its own for the work, which costs more than a release does. Here the task is
    shown each future that the work waits for as one that refuses to be cancelled: so the task
    keeps a cancellation until that future is done.
    """
    task: Any = asyncio.current_task()
    # One that was asked for while the task ran strikes at our first wait, and is ours to keep.
    before = task.cancelling() - task._must_cancel  # noqa: SLF001
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            future: Any = work.send(None)
        except StopIteration as end:
            # Where the count is as before, the work's own doing was undone by itself.
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
            # None is a bare turn of the loop, as by sleep(0); a shield inside has done it before.
            is_future = future is not None and future.__class__ is not _Uncancellable
            yield _Uncancellable(future) if is_future else future
        except asyncio.CancelledError as error:
            cancelled = error
        except Exception:
            # The future's own failure, which the work is about to find there.
            if future is None or not future.done():
                raise


class _Uncancellable:
    """A future as a task needs to see it in order to wait for it; see asyncio.Task."""

    __slots__ = ("_asyncio_future_blocking", "_future", "_loop")

    def __init__(self, future: asyncio.Future[Any]) -> None:
        # The handshake between a future and the task that awaits it: ours is awaited now.
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
