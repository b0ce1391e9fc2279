"""One Redis server, and two kinds of trouble on the ways to it that only some locks mind."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from lockfast.challenge.deployments.on_servers import OnServers
from lockfast.challenge.deployments.redis import Redis
from lockfast.challenge.nemesis.on_ways import OnWay
from lockfast.challenge.servers.proxy import Message, Proxy

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from lockfast.challenge.fault import Draw, Fault

LONG = (0.5, 1.5)
"""In ttls: so long that somebody gives the lock back meanwhile."""
APART = (3.0, 6.0)
NEAREST, FARTHEST = 0.02, 0.15
"""In ttls: what a message takes from the nearest client and from the farthest."""


class OneServer(Redis):
    """As any client has it."""

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [
            *super().faults(),
            OnWay(
                "asker-replies-cut",
                "asker",
                self.ways,
                lengths=LONG,
                begins=_cut_replies,
                ends=Proxy.let_through,
            ),
            OnServers("far-apart", APART, self._move, self._move_back, is_destructive=False),
        ]

    def _move(self, _: Draw) -> str:
        ways = self._ways.all()
        step = (FARTHEST - NEAREST) / max(1, len(ways) - 1)
        for number, way in enumerate(ways):
            way.delay(self.ttl * (NEAREST + number * step))
        return "the ways of all clients, each by another distance"

    def _move_back(self) -> None:
        for way in self._ways.all():
            way.delay(0.0)


def _cut_replies(way: Proxy, _: Draw) -> threading.Event:
    return way.cut_reply_to(_is_no_greeting, times=inf)


def _is_no_greeting(request: Message) -> bool:
    """Whether it is more than what redis-py says of itself: cut off there, it would ask nothing."""
    return b"SETINFO" not in request.data
