"""Listens to the doorbell, a client's wakeup socket, in asyncio.

While any claim waits, the event loop reads the socket for all waiting claims.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lockfast.backends.sqlite.doorbell import MESSAGE_MAX_BYTES
from lockfast.runtime.aio import WakeEvent, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.sqlite.doorbell import Doorbell
    from lockfast.runtime.clock import Clock

__all__ = ["DoorbellListener"]


class DoorbellListener:
    """Passes on the wakeups that arrive at the doorbell."""

    def __init__(self, bell: Doorbell, hear: Callable[[str], None], *, clock: Clock) -> None:
        self._bell = bell
        self._hear = hear
        self._clock = clock
        self._attending = 0
        self._polled = -1
        self._receiving: asyncio.Task[None] | None = None

    async def wait_for_event(self, event: WakeEvent, *, deadline: float) -> None:
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
            # On Windows the event loop cannot watch a socket, so a task receives the datagrams. If
            # that task is cancelled, nothing receives wakeups until the next claim waits; claims
            # that already wait check on their own meanwhile.
            if self._receiving is None or self._receiving.done():
                self._receiving = loop.create_task(self._receive(), name="lockfast-doorbell")
        else:
            self._polled = number

    def _read(self) -> None:
        for claim_id in self._bell.received():
            self._hear(claim_id)

    async def _receive(self) -> None:
        loop = asyncio.get_running_loop()
        while (receiving_socket := self._bell.receiving_socket) is not None:
            try:
                message, _ = await loop.sock_recvfrom(receiving_socket, MESSAGE_MAX_BYTES)
            except ConnectionResetError:
                continue  # Windows: a datagram that we sent had no receiver
            except OSError:
                return  # the socket was closed together with the client
            for claim_id in self._bell.claims_in(message):
                self._hear(claim_id)

    def wake_to_check(self) -> None:
        """Do nothing, because a waiting task notices on its own that its event is set."""

    def close(self) -> None:
        """Stop reading, before the doorbell is closed."""
        number, self._polled = self._polled, -1
        if number >= 0:
            asyncio.get_running_loop().remove_reader(number)
        receiving, self._receiving = self._receiving, None
        if receiving is not None:
            receiving.cancel()

    def after_fork_in_child(self) -> None:
        """Start over, because the parent's event loop does not run in the child."""
        self._attending = 0
        self._polled = -1
        self._receiving = None
