"""A Redis master with two replicas, and three Sentinels that watch it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, ClassVar

from holdfast.challenge.deployments.on_servers import PAUSED, OnServers, one_of, revive
from holdfast.challenge.deployments.own import OwnServers
from holdfast.challenge.deployments.redis import FORGETS
from holdfast.challenge.servers.redis_sentinels import SERVICE, Sentinels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.challenge.deployments.ways import Place
    from holdfast.challenge.fault import Draw, Fault

HELD = 0.8
"""In ttls: so long is replication held at most before the master dies."""


class Sentinel(OwnServers):
    """`redis+sentinel://`; what Sentinels say of the servers leads each client by its own ways."""

    store = "sentinel"
    are_told = True
    documented: ClassVar = {
        "failover": FORGETS,
        "server-killed": FORGETS,
        "server-paused": FORGETS,
    }

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

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [
            OnServers("failover", (0.5, 1.0), self._fail_over, self._mend),
            OnServers("server-paused", PAUSED, self._pause, self._mend),
            OnServers("server-killed", (0.5, 1.0), self._kill, self._mend),
            OnServers("node-paused", PAUSED, self._pause_replica, self._mend),
        ]

    def _mend(self) -> None:
        """Return once both replicas follow the master, whoever that is now."""
        revive([one for one in self._group.servers if one.is_running])
        for one in self._group.servers:
            if not one.is_running:
                self._group.bring_back(one)
        self._group.until_replicated(2)

    def _fail_over(self, draw: Draw) -> str:
        """Lose what is acknowledged last: it reaches no replica until one of them is promoted."""
        old = self._group.master
        replicas = self._group.cut_off_replicas()
        time.sleep(self.ttl * HELD * draw.strength)
        old.kill()
        for one in replicas:
            one.resume()
        # Sooner than the Sentinels would by themselves, while the lost lock is still believed in.
        self._group.replace(old)
        return "the master, and what its replicas had not heard of"

    def _pause(self, _: Draw) -> str:
        self._group.master.pause()
        return "the master"

    def _kill(self, _: Draw) -> str:
        old = self._group.master
        old.kill()
        self._group.until_failed_over(old)
        return "the master"

    def _pause_replica(self, draw: Draw) -> str:
        one_of(self._group.replicas, draw).pause()
        return "a replica"
