"""A Redis Cluster: three masters with a replica each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from holdfast.challenge.deployments.on_servers import PAUSED, OnServers, revive
from holdfast.challenge.deployments.own import OwnServers
from holdfast.challenge.deployments.redis import FORGETS
from holdfast.challenge.deployments.sentinel import HELD
from holdfast.challenge.servers.redis import until
from holdfast.challenge.servers.redis_cluster import ClusterServers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.challenge.deployments.ways import Place
    from holdfast.challenge.fault import Draw, Fault
    from holdfast.challenge.servers.redis import RedisServer

ELECTION = 3.0
"""After so long an election has failed, in silence, and the replica is told to take over."""


class Cluster(OwnServers):
    """`redis+cluster://`; wherever nodes name each other, each client is led by its own ways."""

    store = "cluster"
    are_told = True
    documented: ClassVar = {
        "failover": FORGETS,
        "server-killed": FORGETS,
        "server-paused": FORGETS,
    }

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self._group = ClusterServers()

    def start_servers(self) -> None:
        """Return once every node says that the cluster is whole."""
        self._group.start()

    def stop_servers(self) -> None:
        """End all nodes."""
        self._group.stop()

    def places(self) -> list[Place]:
        """Return where the nodes are."""
        return [("127.0.0.1", one.port) for one in self._group.servers]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL that names all nodes."""
        return f"redis+cluster://{','.join(addresses)}"

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [
            OnServers("failover", (0.5, 1.0), self._fail_over, self._mend),
            OnServers("server-paused", PAUSED, self._pause, self._mend),
            OnServers("server-killed", (0.5, 1.5), self._kill, self._mend),
        ]

    def _mend(self) -> None:
        revive(self._group.servers)
        self._group.until_whole()

    def _busiest(self) -> RedisServer:
        """Return the master that is written to most: the one that has the name."""
        return max(self._group.masters(), key=lambda one: one.calls())

    def _fail_over(self, draw: Draw) -> str:
        """Lose what is acknowledged last: it reaches no replica until that is promoted."""
        master = self._busiest()
        replica = self._group.cut_off_replica(master)
        time.sleep(self.ttl * HELD * draw.strength)
        master.kill()
        replica.resume()
        self._until_promoted(replica)
        return "the busiest master, and what its replica had not heard of"

    def _until_promoted(self, replica: RedisServer) -> None:
        # Sooner than it would by itself, while the lost lock is still believed in.
        self._group.ask(replica, "CLUSTER", "FAILOVER", "FORCE")
        asked_at = time.monotonic()

        def is_promoted() -> bool:
            nonlocal asked_at
            if self._group.ask(replica, "ROLE")[0] == "master":
                return True
            if time.monotonic() - asked_at > ELECTION:
                asked_at = time.monotonic()
                self._group.ask(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
            return False

        until(is_promoted, what="the replica is promoted")

    def _pause(self, _: Draw) -> str:
        self._busiest().pause()
        return "the busiest master"

    def _kill(self, _: Draw) -> str:
        self._busiest().kill()
        return "the busiest master"
