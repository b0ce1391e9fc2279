"""A coroutine that runs without a task, so that whoever cancels all tasks does not end it.

Programs cancel every task of their loop when they shut down, `asyncio.run` does so too, and their
bodies may go on for a while under their leases. Their look-out has to last as long. A task that
swallowed its cancellation would keep `asyncio.run` from ever returning; this is forgotten with
the loop, without a word.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Coroutine


class Lookout:
    """Drives the coroutine by callbacks of the loop; it may wait for futures and nothing else."""

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
        except BaseException as error:  # noqa: BLE001 - told as the loop tells a task's
            self._end()
            message = f"{self._name} ended"
            self._loop.call_exception_handler({"message": message, "exception": error})
        else:
            self._wait_for(future)

    def _wait_for(self, future: asyncio.Future[Any] | None) -> None:
        if future is None:  # a bare turn of the loop, as by sleep(0)
            self._loop.call_soon(self._step, context=self._context)
            return
        # The handshake between a future and who awaits it; see asyncio.Task.
        future._asyncio_future_blocking = False  # noqa: SLF001
        future.add_done_callback(self._step, context=self._context)

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def join(self) -> None:
        """Wait until it has ended."""
        if not self._ended.done():
            await asyncio.wait([self._ended])

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return not self._ended.done()
