"""The subscription of the asyncio flavour: it shares the connection, and the loop reads for all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from lockfast.backends.redis.cluster import listening
from lockfast.runtime.listening import ReadByLoop

if TYPE_CHECKING:
    from lockfast.backends.redis.connection.aio import Link
    from lockfast.backends.redis.resp import Reply
    from lockfast.runtime.clock import Clock

__all__ = ["ClusterSubscription", "Subscription"]


class Subscription(ReadByLoop):
    """Hears one channel on the connection that carries everything else too."""

    def __init__(self, link: Link, channel: bytes, *, clock: Clock) -> None:
        super().__init__(link.lost, clock=clock)
        self._link = link
        self._channel = channel

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
