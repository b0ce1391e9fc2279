"""Replicated Redis: Sentinel and Cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lockfast_challenge.deployments.own_servers import OwnServers
from lockfast_challenge.deployments.redis import REDIS_FORGETS
from lockfast_challenge.faults.on_servers import PAUSE_RANGE_TTLS, ServerFault, one_of, revive
from lockfast_challenge.outcome import Exemption
from lockfast_challenge.servers.redis import until
from lockfast_challenge.servers.redis_cluster import ClusterServers
from lockfast_challenge.servers.redis_sentinel import SERVICE, Sentinels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast_challenge.deployments.own_servers import ServerAddress
    from lockfast_challenge.faults.fault import Draw, Fault
    from lockfast_challenge.servers.redis import RedisServer


# Common to Sentinel and Cluster: a master, and replicas that may lack the master's last writes.

REPLICATION_HELD_TTLS = 0.8
"""Maximum time for which replication is held back before the master is killed, in ttls."""
FAILOVER_RANGE_TTLS = (0.5, 1.0)


class ReplicatedDeployment(OwnServers):
    """Servers that announce each other's addresses, which proxies replace with their own."""

    announces_addresses = True
    # Tokens have no exemption: all servers of a failover here have the same clock.
    exemptions = (
        Exemption("failover", "overlap", REDIS_FORGETS),
        Exemption("server-killed", "overlap", REDIS_FORGETS),
        Exemption("server-paused", "overlap", REDIS_FORGETS),
    )

    # -- implemented by each store ---------------------------------------------------------

    def master(self) -> RedisServer:
        """Return the master that serves the name of the run."""
        raise NotImplementedError

    def followers(self, master: RedisServer) -> list[RedisServer]:
        """Return the replicas of this master."""
        raise NotImplementedError

    def cut_off(self, master: RedisServer) -> list[RedisServer]:
        """Stop replicating new writes of this master; return its replicas, frozen."""
        raise NotImplementedError

    def replace(self, dead: RedisServer, followers: Sequence[RedisServer]) -> None:
        """Return once a replica has replaced the dead master.

        The replica is promoted sooner than the servers would promote it on their own, so that a
        client still trusts the lost lock.
        """
        raise NotImplementedError

    def mend(self) -> None:
        """Return once all servers serve and all replicas follow their masters."""
        raise NotImplementedError

    # -- the Deployment protocol -----------------------------------------------------------

    def faults(self) -> Sequence[Fault]:
        return [
            ServerFault("failover", FAILOVER_RANGE_TTLS, self._fail_over, self.mend),
            ServerFault("server-paused", PAUSE_RANGE_TTLS, self._pause, self.mend),
            ServerFault("server-killed", FAILOVER_RANGE_TTLS, self._kill, self.mend),
        ]

    def _fail_over(self, draw: Draw) -> str:
        """Lose the last acknowledged writes, because a replica that lacks them is promoted."""
        master = self.master()
        followers = self.cut_off(master)
        time.sleep(self.ttl * REPLICATION_HELD_TTLS * draw.strength)
        master.kill()
        for one in followers:
            one.resume()
        self.replace(master, followers)
        return "the master, and what its replicas had not heard of"

    def _pause(self, _: Draw) -> str:
        self.master().pause()
        return "the master"

    def _kill(self, _: Draw) -> str:
        master = self.master()
        followers = self.followers(master)
        master.kill()
        self.replace(master, followers)
        return "the master"


# Redis Cluster: three masters with one replica each.

ELECTION_SECONDS = 3.0
"""Seconds after which an election counts as failed and the replica is ordered to take over."""


class Cluster(ReplicatedDeployment):
    """`redis+cluster://`, on three masters with one replica each."""

    store = "cluster"

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self._group = ClusterServers()

    def start_servers(self) -> None:
        """Return once every node reports that the cluster is whole."""
        self._group.start()

    def stop_servers(self) -> None:
        """Stop all nodes."""
        self._group.stop()

    def places(self) -> list[ServerAddress]:
        """Return the addresses of the nodes."""
        return [("127.0.0.1", one.port) for one in self._group.servers]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL that names all nodes."""
        return f"redis+cluster://{','.join(addresses)}"

    def master(self) -> RedisServer:
        """Return the busiest master, which serves the name of the challenge."""
        return max(self._group.masters(), key=lambda one: one.calls())

    def followers(self, master: RedisServer) -> list[RedisServer]:
        """Return the replica of this master."""
        return [self._group.replica_of(master)]

    def cut_off(self, master: RedisServer) -> list[RedisServer]:
        """Cut off the replica of this master."""
        return [self._group.cut_off_replica(master)]

    def replace(self, dead: RedisServer, followers: Sequence[RedisServer]) -> None:
        """Have the replica elected, or make the replica take over if the election fails."""
        del dead
        [replica] = followers
        self._group.ask(replica, "CLUSTER", "FAILOVER", "FORCE")
        asked_at = time.monotonic()

        def is_promoted() -> bool:
            nonlocal asked_at
            if self._group.ask(replica, "ROLE")[0] == "master":
                return True
            if time.monotonic() - asked_at > ELECTION_SECONDS:
                asked_at = time.monotonic()
                self._group.ask(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
            return False

        until(is_promoted, what="the replica is promoted")

    def mend(self) -> None:
        """Return once all nodes serve and agree that the cluster is whole."""
        revive(self._group.servers)
        self._group.until_whole()


# A Redis master with two replicas, and three Sentinels that watch it.


class Sentinel(ReplicatedDeployment):
    """`redis+sentinel://`, on a master with two replicas, and three Sentinels."""

    store = "sentinel"

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self._group = Sentinels()

    def start_servers(self) -> None:
        """Return once every Sentinel knows all other Sentinels."""
        self._group.start()

    def stop_servers(self) -> None:
        """Stop the Sentinels and the servers."""
        self._group.stop()

    def places(self) -> list[ServerAddress]:
        """Return the addresses of the Sentinels, then those of the servers."""
        return [("127.0.0.1", one.port) for one in (*self._group.sentinels, *self._group.servers)]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of the service that the Sentinels watch."""
        return f"redis+sentinel://{','.join(addresses[:3])}/{SERVICE}"

    def master(self) -> RedisServer:
        """Return the master that the Sentinels report."""
        return self._group.master

    def followers(self, master: RedisServer) -> list[RedisServer]:
        """Return the two replicas."""
        return [one for one in self._group.servers if one is not master]

    def cut_off(self, master: RedisServer) -> list[RedisServer]:
        """Cut off both replicas."""
        del master
        return self._group.cut_off_replicas()

    def replace(self, dead: RedisServer, followers: Sequence[RedisServer]) -> None:
        """Have the Sentinels choose a new master."""
        del followers
        self._group.replace(dead)

    def mend(self) -> None:
        """Return once both replicas follow the current master."""
        revive([one for one in self._group.servers if one.is_running])
        for one in self._group.servers:
            if not one.is_running:
                self._group.bring_back(one)
        self._group.settle()

    def faults(self) -> Sequence[Fault]:
        paused = ServerFault("node-paused", PAUSE_RANGE_TTLS, self._pause_replica, self.mend)
        return [*super().faults(), paused]

    def _pause_replica(self, draw: Draw) -> str:
        one_of(self._group.replicas, draw).pause()
        return "a replica"
