"""Five independent Redis nodes, of which a minority is struck."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from lockfast import BackendUnavailable, Locks, OutcomeUnknown
from lockfast.challenge.deployments.on_servers import PAUSED, OnServers, one_of, revive
from lockfast.challenge.deployments.one_server import jump, set_right
from lockfast.challenge.deployments.own import OwnServers
from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.redis import RedisServer, ShiftedRedis
from lockfast.challenge.servers.redlock import RedlockNodes
from lockfast.challenge.servers.shifted_clock import clock_lacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast import Lock
    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.fault import Draw, Fault

MINORITY = 2
SETTLED = (1.2, 1.8)
"""In ttls. A node that was restarted counts after one: at most two do not, whatever strikes."""


class Redlock(OwnServers):
    """`redlock://`; a node that was restarted does not count for a ttl."""

    store = "redlock"
    documented: ClassVar[dict[str, str]] = {
        "clock-jump": "Where the lock is on a bare majority, one node is enough to break that",
    }

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self._clock_lacks = clock_lacks()
        self._nodes = RedlockNodes(kind=RedisServer if self._clock_lacks else ShiftedRedis)

    def start_servers(self) -> None:
        """Return once the nodes grant something: those that were started together wait for it."""
        self._nodes.start()
        with Locks(self.url, ttl=self.ttl) as locks:
            lock = locks.lock("challenge")
            # Nodes that do not count yet are an outage, which nobody waits for.
            early = BackendUnavailable, OutcomeUnknown
            eventually(lambda: _is_granted(lock), what="the nodes grant something", despite=early)

    def stop_servers(self) -> None:
        """End all nodes."""
        self._nodes.stop()

    def places(self) -> list[Place]:
        """Return where the nodes are."""
        return [("127.0.0.1", one.port) for one in self._servers]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return their URL."""
        return f"redlock://{','.join(addresses)}?max_ttl={self.ttl}&node_timeout={self.ttl / 8}"

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [
            OnServers("node-paused", PAUSED, self._pause, self._revive),
            OnServers("node-killed", SETTLED, self._kill, self._revive),
            OnServers("node-emptied", SETTLED, self._empty, self._revive),
            OnServers("clock-jump", SETTLED, self._jump, self._set_right, lacks=self._clock_lacks),
        ]

    @property
    def _servers(self) -> list[RedisServer]:
        return self._nodes.servers

    def _minority(self, draw: Draw) -> list[RedisServer]:
        first = int(draw.strength * len(self._servers))
        return [self._servers[(first + one) % len(self._servers)] for one in range(MINORITY)]

    def _named(self, *nodes: RedisServer) -> str:
        return " and ".join(f"node {self._servers.index(one)}" for one in nodes)

    def _revive(self) -> None:
        revive(self._servers)

    def _pause(self, draw: Draw) -> str:
        struck = self._minority(draw)
        for one in struck:
            one.pause()
        return self._named(*struck)

    def _kill(self, draw: Draw) -> str:
        node = one_of(self._servers, draw)
        node.kill()
        return self._named(node)

    def _empty(self, draw: Draw) -> str:
        """Restart a node at once: the sooner it is back without its data, the worse."""
        node = one_of(self._servers, draw)
        node.kill()
        revive([node])
        return self._named(node)

    def _jump(self, draw: Draw) -> str:
        node = one_of(self._servers, draw)
        return f"{self._named(node)}: {jump(node, draw, ttl=self.ttl)}"

    def _set_right(self) -> None:
        set_right(self._servers)


def _is_granted(lock: Lock) -> bool:
    lease = lock.try_acquire()
    if lease is not None:
        lease.release()
    return lease is not None
