"""The subscription of the asyncio flavour: it shares the connection, and the loop reads for all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from holdfast.backends.redis.cluster import listening

if TYPE_CHECKING:
    from holdfast.backends.redis.connection.aio import Link
    from holdfast.backends.redis.resp import Reply
    from holdfast.runtime.aio import Event
    from holdfast.runtime.clock import Clock

__all__ = ["ClusterSubscription", "Subscription"]

LONGEST = 3600.0
"""No timer is longer: some clocks cannot count to infinity."""


class Subscription:
    """Hears one channel on the connection that carries everything else too."""

    def __init__(self, link: Link, channel: bytes, *, clock: Clock) -> None:
        self._link = link
        self._channel = channel
        self._clock = clock
        self._kicked = asyncio.Event()

    async def listen(self, *, until: float) -> bool:
        """Return then, or when kicked; false once the link is broken.

        What is heard is told as it comes, by the loop itself.
        """
        self._kicked.clear()
        link = self._link
        link.lost.add_done_callback(self._kick)
        try:
            while link.is_open and not self._kicked.is_set():
                left = min(until - self._clock.now(), self._clock.longest_sleep)
                if left <= 0:
                    break
                try:
                    async with asyncio.timeout(left):
                        await self._kicked.wait()
                except TimeoutError:
                    continue
        finally:
            link.lost.remove_done_callback(self._kick)
        return link.is_open

    def _kick(self, _: object) -> None:
        self._kicked.set()

    def kick(self) -> None:
        """Let `listen` return."""
        self._kicked.set()

    async def attend(self, event: Event, *, deadline: float) -> None:
        """Return when the event is set or the deadline has passed; the loop reads for all.

        Nobody who waits looks at the clock now and then: thousands of them would keep the
        loop busy with that. Whoever listens does, and rings all when the machine has slept.
        """
        while not event.is_set():
            left = deadline - self._clock.now()
            if left <= 0:
                return
            await event.wait(min(left, LONGEST))

    def nudge(self) -> None:
        """Do nothing: whoever waits sees by itself that its event is set."""

    async def close(self) -> None:
        """Hear no more."""
        self._link.unsubscribe(self._channel)


class ClusterSubscription(Subscription):
    """Hears one channel, and notices when the node falls silent or leaves the cluster.

    The node may serve none of our names: then no request of ours would notice it.
    """

    def __init__(self, link: Link, channel: bytes, *, clock: Clock) -> None:
        super().__init__(link, channel, clock=clock)
        self._asked_at = -listening.ASK_EVERY
        self._question = b""
        self._is_deaf = False

    def asking(self, channel: bytes) -> ClusterSubscription:
        """Know what to ask the node, now and then."""
        self._question = listening.question(channel)
        return self

    async def listen(self, *, until: float) -> bool:
        """Return then, or when kicked; false once the node is gone, or deaf."""
        now = asyncio.get_running_loop().time()
        if self._is_deaf:
            return False
        if self._link.is_open and now - self._asked_at >= listening.ASK_EVERY:
            self._asked_at = now
            # Unanswered in time, it breaks the link.
            reply = self._link.send(self._question, deadline=now + listening.PATIENCE)
            reply.add_done_callback(self._answered)
        return await super().listen(until=until) and not self._is_deaf

    def _answered(self, reply: asyncio.Future[Reply]) -> None:
        # A lost one is nobody's: the link tells of it.
        if not reply.cancelled() and reply.exception() is None:
            self._is_deaf = listening.is_deaf(reply.result())
            if self._is_deaf:
                self.kick()
