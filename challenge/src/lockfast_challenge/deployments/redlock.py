"""Five independent Redis nodes; faults strike a minority of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lockfast import BackendUnavailable, Locks, OutcomeUnknown
from lockfast_challenge.deployments.own_servers import OwnServers
from lockfast_challenge.deployments.single_server import (
    jump_clock,
    jump_seconds,
    reset_clocks,
)
from lockfast_challenge.faults.on_servers import PAUSE_RANGE_TTLS, ServerFault, one_of, revive
from lockfast_challenge.outcome import Exemption
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.redis import RedisServer, ShiftedRedis
from lockfast_challenge.servers.redlock import RedlockNodes
from lockfast_challenge.servers.shifted_clock import clock_lacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast import Lock
    from lockfast_challenge.deployments.own_servers import ServerAddress
    from lockfast_challenge.faults.fault import Draw, Fault

MINORITY = 2
SETTLED_RANGE_TTLS = (1.2, 1.8)
"""Length of a fault, in ttls.

A restarted node counts again after one ttl, so at most two nodes do not count, whatever strikes.
"""

BARE_MAJORITY = "Where the lock is on a bare majority, one node is enough to break that"


class Redlock(OwnServers):
    """`redlock://`; a restarted node does not count towards the majority for one ttl."""

    store = "redlock"
    exemptions = (Exemption("clock-jump", "overlap", BARE_MAJORITY, clock="ahead"),)

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self._clock_lacks = clock_lacks()
        self._nodes = RedlockNodes(kind=RedisServer if self._clock_lacks else ShiftedRedis)

    def start_servers(self) -> None:
        """Return once the nodes grant a lock; nodes that have just started do not count yet."""
        self._nodes.start()
        with Locks(self.url, ttl=self.ttl) as locks:
            lock = locks.lock("challenge")
            # While too few nodes count, acquiring fails as in an outage, without waiting.
            early = BackendUnavailable, OutcomeUnknown
            eventually(lambda: _is_granted(lock), what="the nodes grant something", despite=early)

    def stop_servers(self) -> None:
        """Stop all nodes."""
        self._nodes.stop()

    def places(self) -> list[ServerAddress]:
        """Return the addresses of the nodes."""
        return [("127.0.0.1", one.port) for one in self._servers]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL that names all nodes."""
        return f"redlock://{','.join(addresses)}?max_ttl={self.ttl}&node_timeout={self.ttl / 8}"

    def faults(self) -> Sequence[Fault]:
        return [
            ServerFault("node-paused", PAUSE_RANGE_TTLS, self._pause, self._revive),
            ServerFault("node-killed", SETTLED_RANGE_TTLS, self._kill, self._revive),
            ServerFault("node-emptied", SETTLED_RANGE_TTLS, self._empty, self._revive),
            ServerFault(
                "clock-jump",
                SETTLED_RANGE_TTLS,
                self._jump,
                self._reset_clock,
                lacks=self._clock_lacks,
                jumps=partial(jump_seconds, ttl=self.ttl),
            ),
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
        """Restart a node without its data; the sooner it is back, the more harm it does."""
        node = one_of(self._servers, draw)
        node.kill()
        revive([node])
        return self._named(node)

    def _jump(self, draw: Draw) -> str:
        node = one_of(self._servers, draw)
        return f"{self._named(node)}: {jump_clock(node, draw, ttl=self.ttl)}"

    def _reset_clock(self) -> None:
        reset_clocks(self._servers)


def _is_granted(lock: Lock) -> bool:
    lease = lock.try_acquire()
    if lease is not None:
        lease.release()
    return lease is not None
