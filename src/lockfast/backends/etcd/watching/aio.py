"""The watch stream of the asyncio flavour: one of the connection's, and the loop reads for all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lockfast.backends.etcd.http2.calls import Streamed
from lockfast.backends.etcd.watching.pulse import Due, Pulse
from lockfast.runtime.listening import ReadByLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.etcd.connection.aio import Link
    from lockfast.backends.etcd.http2.calls import Broken, Refusal
    from lockfast.runtime.clock import Clock

__all__ = ["Watching"]


class Watching(ReadByLoop):
    """One stream, on the connection that carries everything else too."""

    def __init__(
        self, link: Link, head: bytes, hear: Callable[[bytes], None], *, clock: Clock
    ) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        super().__init__(ended, clock=clock)
        self._link = link
        self._heard = link.heard
        self._pulse = Pulse(clock.now())
        self._stream = Streamed(head, hear, self.leave)
        link.begin(self._stream)

    @property
    def end(self) -> Refusal | Broken | None:
        """Why the member has ended it, if it has."""
        return self._stream.end

    @property
    def awaits_a_sign(self) -> bool:
        """Whether the member was asked if it is there, and nothing has come since."""
        return self._pulse.awaits_a_sign and self._heard == self._link.heard

    def say(self, message: bytes) -> bool:
        """Ask for a watch, or for the end of one; false if the stream is broken."""
        if not self._stream.is_over:
            self._link.add(self._stream, message)
        return not self._stream.is_over

    def answer(self, message: bytes) -> None:
        """Say something from within what hears."""
        self.say(message)

    def leave(self) -> None:
        """Let it be over; whoever listens closes it."""
        if not self._lost.done():
            self._lost.set_result(None)

    async def listen(self, *, until: float) -> bool:
        """Return then, or when kicked; false once the stream is over.

        What is heard is told as it comes, by the loop itself.
        """
        now = self._clock.now()
        if self._heard != self._link.heard:
            self._heard = self._link.heard
            self._pulse.heard(now)
        due = self._pulse.due(now)
        if due is Due.LEAVE:
            # All that uses this connection waits for nobody.
            self._link.lose(TimeoutError("no sign of life"))
        elif due is Due.ASK:
            self._link.ping()
        return await super().listen(until=until)

    async def close(self) -> None:
        """Hear no more."""
        self._link.give_up(self._stream)
        self.leave()
