"""The subscription of the sync flavour: a connection of its own, read by one thread at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.redis.cluster import listening
from lockfast.backends.redis.resp import NotRedis, Push
from lockfast.backends.wires.parsing import MORE
from lockfast.runtime.reading import ReadByTurns

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast.backends.redis.connection.threads import Link
    from lockfast.backends.redis.resp import Reply
    from lockfast.runtime.clock import Clock

__all__ = ["ClusterSubscription", "Subscription"]


class Subscription(ReadByTurns["Link"]):
    """A connection of its own that hears one channel."""

    _broken_by = (OSError, NotRedis)

    def __init__(self, link: Link, hear: Callable[[bytes], None], *, clock: Clock) -> None:
        super().__init__(link, clock=clock)
        self.generation: int = link.generation
        self._hear = hear

    def _has_more(self) -> bool:
        return self._link.has_buffered()

    def _read(self) -> None:
        # One read; whatever whole messages it brought are told.
        link = self._link
        link.take_in()
        while (push := link.buffered()) is not MORE:
            if not isinstance(push, Push):
                self._answered(push)
            elif push.items[0] == b"message":
                self._hear(push.items[2])

    def _answered(self, reply: Reply) -> None:
        """Do nothing: nobody asked."""

    def shut(self) -> None:
        """Let `listen` find the link broken."""
        self._link.shut()


class ClusterSubscription(Subscription):
    """Hears one channel, and notices when the node falls silent or leaves the cluster.

    The node may serve none of our names: then no request of ours would notice it.
    """

    def __init__(self, link: Link, hear: Callable[[bytes], None], *, clock: Clock) -> None:
        super().__init__(link, hear, clock=clock)
        self._heard_at = clock.now()
        self._asked_at = self._heard_at
        self._question = b""
        self._is_deaf = False

    def asking(self, channel: bytes) -> ClusterSubscription:
        """Know what to ask the node, now and then."""
        self._question = listening.question(channel)
        return self

    def listen(self, *, until: float) -> bool:
        """Tell of what is heard until then, or until kicked; false once the node is gone, or deaf.

        A kick is how a guest that read the answer makes that known.
        """
        now = self._clock.now()
        if self._is_deaf:
            return False
        if self._asked_at > self._heard_at:
            if now - self._asked_at > listening.PATIENCE:
                return False
        elif now - self._heard_at >= listening.ASK_EVERY:
            self._asked_at = now
            try:
                with self._using:  # a guest may be reading it, and TLS bears one at a time
                    self._link.send(self._question, deadline=now + listening.PATIENCE)
            except OSError:
                return False
        return super().listen(until=until) and not self._is_deaf

    def _read(self) -> None:
        super()._read()
        self._heard_at = self._clock.now()

    def _answered(self, reply: Reply) -> None:
        self._is_deaf = listening.is_deaf(reply)
        if self._is_deaf:
            self.kick()
