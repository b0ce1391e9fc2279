"""A Redis Cluster: three masters with a replica each."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockfast.challenge.deployments.on_servers import revive
from lockfast.challenge.deployments.replicated import Replicated
from lockfast.challenge.servers.redis import until
from lockfast.challenge.servers.redis_cluster import ClusterServers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.servers.redis import RedisServer

ELECTION = 3.0
"""After so long an election has failed, in silence, and the replica is told to take over."""


class Cluster(Replicated):
    """`redis+cluster://`."""

    store = "cluster"

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

    def master(self) -> RedisServer:
        """Return the master that is asked most: a challenge has one name."""
        return max(self._group.masters(), key=lambda one: one.calls())

    def followers(self, master: RedisServer) -> list[RedisServer]:
        """Return its replica."""
        return [self._group.replica_of(master)]

    def cut_off(self, master: RedisServer) -> list[RedisServer]:
        """Cut its replica off."""
        return [self._group.cut_off_replica(master)]

    def replace(self, dead: RedisServer, followers: Sequence[RedisServer]) -> None:
        """Let the replica be elected."""
        del dead
        [replica] = followers
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

    def mend(self) -> None:
        """Return once all nodes agree that all is well."""
        revive(self._group.servers)
        self._group.until_whole()
