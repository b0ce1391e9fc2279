"""Work that a cancellation of its caller does not reach, without a task of its own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

T = TypeVar("T")


async def shield(work: Coroutine[Any, Any, T]) -> T:
    """Finish the work even if the caller is cancelled meanwhile, then let it be cancelled.

    `asyncio.timeout` has no effect inside the work: it is a cancellation too.
    """
    return await _Shielded(work)


class _Shielded(Generic[T]):
    """Drives a coroutine in the caller's own task, and keeps cancellations from it.

    `asyncio.shield` needs a task of its own for the work, which costs more than a release
    does. Here the task waits for a stand-in of each future that the work waits for: a
    cancellation strikes the stand-in, is kept for the end, and the real future lives on.
    """

    __slots__ = ("_work",)

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, T]:
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        before = task.cancelling()
        cancelled: asyncio.CancelledError | None = None
        while True:
            try:
                future = self._work.send(None)
            except StopIteration as end:
                # Where the count is as before, the work's own doing was undone by itself.
                if cancelled is not None and task.cancelling() > before:
                    raise cancelled from None
                return cast("T", end.value)
            except BaseException as error:
                if cancelled is None or task.cancelling() <= before:
                    raise
                cancelled.add_note(f"and what it interrupted failed: {error}")
                raise cancelled from error
            while future is None or not future.done():
                try:
                    yield from _stand_in(future)
                except asyncio.CancelledError as error:
                    cancelled = error
                if future is None:
                    break


def _stand_in(future: asyncio.Future[Any] | None) -> Generator[Any, None, None]:
    if future is None:  # a bare turn of the loop, as by sleep(0)
        yield
        return
    # The handshake between a future and the task that awaits it; see asyncio.Future.__await__.
    future._asyncio_future_blocking = False  # noqa: SLF001
    waiter: asyncio.Future[None] = future.get_loop().create_future()

    def finish(_: object) -> None:
        if not waiter.done():
            waiter.set_result(None)

    future.add_done_callback(finish)
    try:
        yield from waiter
    finally:
        future.remove_done_callback(finish)
