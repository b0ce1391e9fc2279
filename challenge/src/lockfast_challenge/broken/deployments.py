"""Deployments that expose the flaws of the broken locks."""

from __future__ import annotations

from contextlib import ExitStack
from math import inf
from typing import TYPE_CHECKING

import redis

from lockfast_challenge.deployments.own_servers import OwnServers
from lockfast_challenge.deployments.redis import Redis
from lockfast_challenge.faults.on_network import NetworkFault
from lockfast_challenge.faults.on_servers import ServerFault, one_of, revive
from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.proxy import Message, Proxy
from lockfast_challenge.servers.redis import RedisServer

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence

    from lockfast_challenge.deployments.own_servers import ServerAddress
    from lockfast_challenge.faults.fault import Draw, Fault


# Three Redlock nodes without persistence, two of which restart empty.

DOWN_RANGE_TTLS = (0.0, 0.1)
"""How long the nodes are down, in ttls."""


class ForgetfulNodes(OwnServers):
    """Servers that have no connection to each other and keep nothing on disk."""

    store = "redlock"

    def __init__(self, *, ttl: float) -> None:
        super().__init__(ttl=ttl)
        self.nodes: list[RedisServer] = [RedisServer() for _ in range(3)]

    def start_servers(self) -> None:
        """Return once all nodes serve."""
        revive(self.nodes)

    def stop_servers(self) -> None:
        """Stop all nodes."""
        for one in self.nodes:
            one.stop()

    def places(self) -> list[ServerAddress]:
        """Return the addresses of the nodes."""
        return [("127.0.0.1", one.port) for one in self.nodes]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL that names all nodes."""
        return f"redlock://{','.join(addresses)}"

    def faults(self) -> Sequence[Fault]:
        return [ServerFault("nodes-restart-empty", DOWN_RANGE_TTLS, self._kill, self._revive)]

    def _kill(self, draw: Draw) -> str:
        spared = one_of(self.nodes, draw)
        for one in self.nodes:
            if one is not spared:
                one.kill()
        return f"all but node {self.nodes.index(spared)}"

    def _revive(self) -> None:
        revive(self.nodes)


# One Redis server, and two kinds of network trouble that only some locks cannot handle.

CUT_RANGE_TTLS = (0.5, 1.5)
"""Length of the cut, in ttls; long enough for another client to release the lock meanwhile."""
APART_RANGE_TTLS = (3.0, 6.0)
NEAREST, FARTHEST = 0.02, 0.15
"""Delay of a message for the nearest client and for the farthest client, in ttls."""


class FlawedServer(Redis):
    """The usual single server, with two more kinds of fault."""

    def faults(self) -> Sequence[Fault]:
        return [
            *super().faults(),
            NetworkFault(
                "asker-replies-cut",
                "asker",
                self.proxies_of,
                lengths=CUT_RANGE_TTLS,
                begins=_cut_replies,
                ends=Proxy.let_through,
            ),
            ServerFault(
                "far-apart", APART_RANGE_TTLS, self._move, self._move_back, is_destructive=False
            ),
        ]

    def _move(self, _: Draw) -> str:
        proxies_of = self._proxies.all()
        step = (FARTHEST - NEAREST) / max(1, len(proxies_of) - 1)
        for number, way in enumerate(proxies_of):
            way.delay(self.ttl * (NEAREST + number * step))
        return "the ways of all clients, each by another distance"

    def _move_back(self) -> None:
        for way in self._proxies.all():
            way.delay(0.0)


def _cut_replies(way: Proxy, _: Draw) -> threading.Event:
    return way.cut_reply_to(_is_past_handshake, times=inf)


def _is_past_handshake(request: Message) -> bool:
    """Return whether the request comes after redis-py's handshake.

    A client that is cut off during the handshake would never request the lock.
    """
    return b"SETINFO" not in request.data


# A master and its replica behind one address, and a failover that loses the latest grants.
#
# Grants are lost only if the replica cannot receive them before it is promoted, because even a
# master that is killed sends what it has written. So replication is held back until the promotion.

HELD_RANGE_TTLS = (0.5, 1.5)
"""How long replication is held back before the replica is promoted, in ttls."""


class FlawedFailover(OwnServers):
    """A master and a replica, which swap roles; replication from either one uses a proxy."""

    store = "replicated"

    def start_servers(self) -> None:
        """Return once the replica is in sync."""
        self._stack = ExitStack()
        enter = self._stack.enter_context
        pair = [enter(RedisServer("--repl-diskless-sync-delay", "0")) for _ in range(2)]
        self._replication_proxies = {one: enter(Proxy(one.port)) for one in pair}
        self._master, self._replica = pair
        self._front = enter(Proxy(self._master.port))
        self._follow()

    def stop_servers(self) -> None:
        """Stop both servers."""
        self._stack.close()

    def places(self) -> list[ServerAddress]:
        """Return the address that leads to the current master."""
        return [("127.0.0.1", self._front.port)]

    def url_at(self, addresses: Sequence[str]) -> str:
        """Return the URL of the current master."""
        return f"redis://{addresses[0]}"

    def faults(self) -> Sequence[Fault]:
        return [
            ServerFault("failover-lossy", HELD_RANGE_TTLS, self._hold_replication, self._promote)
        ]

    def _hold_replication(self, _: Draw) -> str:
        self._replication_proxies[self._master].cut()
        return "the master"

    def _promote(self) -> None:
        # Cut clients off from the old master first, because the new master would not have the locks
        # that the old master still grants.
        self._front.refuse()
        with self._replica.client() as client:
            client.replicaof("NO", "ONE")
        self._replication_proxies[self._master].mend()
        self._master, self._replica = self._replica, self._master
        self._front.forward_to(self._master.port)
        self._front.accept()
        self._follow()

    def _follow(self) -> None:
        """Make the replica follow the master, and wait until the replica is in sync.

        A failover before the replica is in sync would lose old grants too.
        """
        with self._replica.client() as client:
            client.replicaof("127.0.0.1", self._replication_proxies[self._master].port)
            eventually(
                lambda: client.info("replication")["master_link_status"] == "up",
                what="the replica has heard all",
                despite=(redis.RedisError,),
            )
