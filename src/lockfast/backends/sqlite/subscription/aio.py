"""The subscription of the asyncio flavour: while anybody waits, the loop reads the bell for all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lockfast.backends.sqlite.doorbell import LARGEST
from lockfast.runtime.aio import Event, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sqlite.doorbell import Doorbell
    from lockfast.runtime.clock import Clock

__all__ = ["Subscription"]


class Subscription:
    """Tells which claims were rung for."""

    def __init__(self, bell: Doorbell, hear: Callable[[str], None], *, clock: Clock) -> None:
        self._bell = bell
        self._hear = hear
        self._clock = clock
        self._attending = 0
        self._polled = -1
        self._receiving: asyncio.Task[None] | None = None

    async def attend(self, event: Event, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed."""
        self._attending += 1
        if self._polled < 0 and (number := self._bell.fileno()) >= 0:
            self._watch(number)
        try:
            await wait_for(event, deadline=deadline, clock=self._clock)
        finally:
            self._attending -= 1
            if not self._attending:
                self.close()

    def _watch(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            loop.add_reader(number, self._read)
        except NotImplementedError:
            # The loop of Windows watches nothing, it only receives. A task that somebody cancels
            # is missed until the next one waits; whoever waits already looks by itself meanwhile.
            if self._receiving is None or self._receiving.done():
                self._receiving = loop.create_task(self._receive(), name="lockfast-doorbell")
        else:
            self._polled = number

    def _read(self) -> None:
        for claim_id in self._bell.heard():
            self._hear(claim_id)

    async def _receive(self) -> None:
        loop = asyncio.get_running_loop()
        while (ear := self._bell.ear) is not None:
            try:
                message, _ = await loop.sock_recvfrom(ear, LARGEST)
            except ConnectionResetError:
                continue  # how Windows tells that a ring of ours found nobody
            except OSError:
                return  # closed under us, when the client is
            for claim_id in self._bell.understood(message):
                self._hear(claim_id)

    def nudge(self) -> None:
        """Do nothing: whoever waits sees by itself that its event is set."""

    def close(self) -> None:
        """Hear no more, before the bell is closed."""
        number, self._polled = self._polled, -1
        if number >= 0:
            asyncio.get_running_loop().remove_reader(number)
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            receiving.cancel()

    def after_fork_in_child(self) -> None:
        """Begin anew: the loop of the parent is not ours."""
        self._attending = 0
        self._polled = -1
        self._receiving = None
