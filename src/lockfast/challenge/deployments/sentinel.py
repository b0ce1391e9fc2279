"""A Redis master with two replicas, and three Sentinels that watch it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.deployments.on_servers import PAUSED, OnServers, one_of, revive
from lockfast.challenge.deployments.replicated import Replicated
from lockfast.challenge.servers.redis_sentinels import SERVICE, Sentinels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.fault import Draw, Fault
    from lockfast.challenge.servers.redis import RedisServer


class Sentinel(Replicated):
    """`redis+sentinel://`."""

    store = "sentinel"

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self._group = Sentinels()

    def start_servers(self) -> None:
        """Return once every Sentinel knows all the others."""
        self._group.start()

    def stop_servers(self) -> None:
        """End all of them."""
        self._group.stop()

    def places(self) -> list[Place]:
        """Return where the Sentinels are, and then the servers."""
        return [("127.0.0.1", one.port) for one in (*self._group.sentinels, *self._group.servers)]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of what the Sentinels watch."""
        return f"redis+sentinel://{','.join(addresses[:3])}/{SERVICE}"

    def master(self) -> RedisServer:
        """Return whom the Sentinels call so."""
        return self._group.master

    def followers(self, master: RedisServer) -> list[RedisServer]:
        """Return the two replicas."""
        return [one for one in self._group.servers if one is not master]

    def cut_off(self, master: RedisServer) -> list[RedisServer]:
        """Cut both replicas off."""
        del master
        return self._group.cut_off_replicas()

    def replace(self, dead: RedisServer, followers: Sequence[RedisServer]) -> None:
        """Let the Sentinels choose one."""
        del followers
        self._group.replace(dead)

    def mend(self) -> None:
        """Return once both replicas follow the master, whoever that is now."""
        revive([one for one in self._group.servers if one.is_running])
        for one in self._group.servers:
            if not one.is_running:
                self._group.bring_back(one)
        self._group.settle()

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        paused = OnServers("node-paused", PAUSED, self._pause_replica, self.mend)
        return [*super().faults(), paused]

    def _pause_replica(self, draw: Draw) -> str:
        one_of(self._group.replicas, draw).pause()
        return "a replica"
