"""A master with a replica behind one address, and a failover that loses what was just granted.

It is lost only if the replica cannot hear of it before it is promoted: a master that is killed
still sends what it has written. So replication is held back until then.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import redis

from lockfast.challenge.deployments.on_servers import OnServers
from lockfast.challenge.deployments.own import OwnServers
from lockfast.challenge.eventually import eventually
from lockfast.challenge.servers.proxy import Proxy
from lockfast.challenge.servers.redis import RedisServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.fault import Draw, Fault

HELD = (0.5, 1.5)
"""In ttls: how long the replica hears nothing before it is promoted."""


class Replicated(OwnServers):
    """Two servers, each with a proxy before it by which the other follows it."""

    store = "replicated"

    def start_servers(self) -> None:
        """Return once the replica has heard all."""
        self._stack = ExitStack()
        enter = self._stack.enter_context
        pair = [enter(RedisServer("--repl-diskless-sync-delay", "0")) for _ in range(2)]
        self._links = {one: enter(Proxy(one.port)) for one in pair}
        self._master, self._replica = pair
        self._front = enter(Proxy(self._master.port))
        self._follow()

    def stop_servers(self) -> None:
        """End both."""
        self._stack.close()

    def places(self) -> list[Place]:
        """Return where the master is, whichever it is."""
        return [("127.0.0.1", self._front.port)]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return its URL."""
        return f"redis://{addresses[0]}"

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return [OnServers("failover-lossy", HELD, self._hold_replication, self._promote)]

    def _hold_replication(self, _: Draw) -> str:
        self._links[self._master].cut()
        return "the master"

    def _promote(self) -> None:
        # The old master first: what it granted from now on, nobody would know of.
        self._front.refuse()
        with self._replica.client() as client:
            client.replicaof("NO", "ONE")
        self._links[self._master].mend()
        self._master, self._replica = self._replica, self._master
        self._front.lead_to(self._master.port)
        self._front.accept()
        self._follow()

    def _follow(self) -> None:
        """Let the replica follow; before it has heard all, a failover would lose old grants too."""
        with self._replica.client() as client:
            client.replicaof("127.0.0.1", self._links[self._master].port)
            eventually(
                lambda: client.info("replication")["master_link_status"] == "up",
                what="the replica has heard all",
                despite=(redis.RedisError,),
            )
