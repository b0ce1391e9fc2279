"""The watch stream of the asyncio flavour: one of the connection's, and the loop reads for all."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from holdfast.backends.etcd.http2.calls import Streamed
from holdfast.runtime.listening import ReadByLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.backends.etcd.connection.aio import Link
    from holdfast.backends.etcd.http2.calls import Broken, Refusal
    from holdfast.runtime.clock import Clock

__all__ = ["Watching"]


class Watching(ReadByLoop):
    """One stream, on the connection that carries everything else too."""

    def __init__(
        self, link: Link, head: bytes, hear: Callable[[bytes], None], *, clock: Clock
    ) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        super().__init__(ended, clock=clock)
        self._link = link
        self._stream = Streamed(head, hear, partial(ended.set_result, None))
        link.begin(self._stream)

    @property
    def end(self) -> Refusal | Broken | None:
        """Why the member has ended it, if it has."""
        return self._stream.end

    def say(self, message: bytes) -> bool:
        """Ask for a watch, or for the end of one; false if the stream is broken."""
        if not self._stream.is_over:
            self._link.add(self._stream, message)
        return not self._stream.is_over

    def answer(self, message: bytes) -> None:
        """Say something from within what hears."""
        self.say(message)

    async def close(self) -> None:
        """Hear no more."""
        self._link.give_up(self._stream)
        if not self._lost.done():
            self._lost.set_result(None)
