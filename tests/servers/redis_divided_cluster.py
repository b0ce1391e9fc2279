"""A cluster whose nodes can be cut off from each other, while clients still reach all nodes."""

from __future__ import annotations

import asyncio
import math
import random
import struct
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Self

from servers.sharing import shared_in_its_room

from lockfast.backends.redis.routing import SLOTS
from lockfast_challenge.servers.proxy import Message, Proxy
from lockfast_challenge.servers.redis import ClusterNode, RedisServer, until
from lockfast_challenge.servers.redis_cluster import ClusterServers

SENDER = slice(40, 80)
"""Position of the sender in each message on the cluster bus."""


async def bus_messages(stream: asyncio.StreamReader) -> AsyncGenerator[Message, None]:
    """Split the messages of the cluster bus: a signature, the total length, and the rest."""
    with suppress(asyncio.IncompleteReadError):
        while True:
            head = await stream.readexactly(8)
            [size] = struct.unpack_from(">I", head, 4)
            yield Message(head + await stream.readexactly(size - len(head)))


class DividedCluster(ClusterServers):
    """Three masters, and a replica that can replace one of the masters."""

    size = 4

    def __init__(self) -> None:
        super().__init__()
        # A proxy in front of each node's bus; the node announces the proxy's port as its own bus
        # port.
        self._buses: dict[RedisServer, Proxy] = {}

    def start(self) -> Self:
        """Return once every node reports that the cluster is complete."""
        for _ in range(self.size):
            node = ClusterNode(*self.options)
            bus = self._buses[node] = Proxy(node.bus, division=bus_messages).__enter__()
            node.options += ("--cluster-announce-bus-port", str(bus.port))
            self.servers.append(node.start())
        *masters, replica = self.servers
        for i, one in enumerate(masters):
            share = SLOTS * i // 3, SLOTS * (i + 1) // 3 - 1
            self.ask(one, "CLUSTER", "ADDSLOTSRANGE", *share)
            self.ask(one, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for one in (*masters[1:], replica):
            self._meet(one)
        self._follow(replica, masters[0])
        self.until_whole()
        return self

    def _meet(self, node: RedisServer) -> None:
        """Make the node join the other nodes."""
        known = next(one for one in self.servers if one is not node)
        self.ask(node, "CLUSTER", "MEET", "127.0.0.1", known.port, self._buses[known].port)

    def _follow(self, replica: RedisServer, master: RedisServer) -> None:
        name = self.id_of(master)
        until(lambda: name in self.ask(replica, "CLUSTER", "NODES"), what="it knows its master")
        until(lambda: self.ask(replica, "CLUSTER", "REPLICATE", name) == "OK", what="it follows")

    def with_replicas(self) -> list[RedisServer]:
        """Return the one master that has a replica."""
        found: list[RedisServer] = []

        def is_followed() -> bool:
            found[:] = [one for one in self.masters() if self.ask(one, "ROLE")[2]]
            return bool(found)

        until(is_followed, what="a master is followed")
        return found

    def cut_off(self, master: RedisServer) -> RedisServer:
        """Cut the master off from all other nodes; return its replica once it is the new master."""
        replica = self.replica_of(master)
        name = self.id_of(master).encode()
        for node, bus in self._buses.items():
            if node is master:
                bus.refuse()
            else:
                bus.reset_on(lambda message: message.data[SENDER] == name, times=math.inf)
        others = [one for one in self.servers if one is not master]
        asked_at = time.monotonic()

        def is_promoted() -> bool:
            nonlocal asked_at
            if all(self._names(one, replica) for one in others):
                return True
            if time.monotonic() - asked_at > 3.0:
                asked_at = time.monotonic()
                # An election may fail silently. And a node that was reset may count the votes of an
                # earlier election: its epoch is then behind, and the other nodes do not follow it.
                is_master = self.ask(replica, "ROLE")[0] == "master"
                prod = ("BUMPEPOCH",) if is_master else ("FAILOVER", "TAKEOVER")
                self.ask(replica, "CLUSTER", *prod)
            return False

        until(is_promoted, what="the replica is promoted")
        until(lambda: self._is_down(master), what="the master knows that it is alone")
        return replica

    def remove(self, master: RedisServer) -> RedisServer:
        """Take the node out of the cluster, as operators do; the node keeps running.

        Return the node that serves its slots instead.
        """
        replica = self.replica_of(master)
        until(lambda: self._is_followed(master), what="the replica knows all")
        # Take over without an election: see `cut_off`.
        self.ask(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
        until(lambda: self.ask(master, "ROLE")[0] == "slave", what="it follows the new master")
        name = self.id_of(master)
        self.ask(master, "CLUSTER", "RESET", "HARD")
        for one in self.servers:
            if one is not master:
                self.ask(one, "CLUSTER", "FORGET", name)
        return replica

    def _names(self, node: RedisServer, master: RedisServer) -> bool:
        return any(one[2][1] == master.port for one in self.ask(node, "CLUSTER", "SLOTS"))

    def _is_down(self, node: RedisServer) -> bool:
        return "cluster_state:fail" in self.ask(node, "CLUSTER", "INFO")

    def heal(self) -> None:
        """Return once all nodes belong to the cluster again, and agree."""
        for bus in self._buses.values():
            bus.accept()
            bus.let_through()
        for one in self.servers:
            if "cluster_known_nodes:1\r" in self.ask(one, "CLUSTER", "INFO"):
                self._meet(one)
                others = [each for each in self.servers if each is not one]
                masters = [each for each in others if self.ask(each, "ROLE")[0] == "master"]
                self._follow(one, masters[0])
        super().heal()

    def move_something(self) -> bool:
        """Move a slot that is in use to another node; return whether there was such a slot."""
        masters = [one for one in self.servers if self._is_master_of_some(one)]
        if len(masters) < 2:  # the cluster considers one master failed at the moment
            return False
        source, target = random.sample(masters, 2)
        key = self.ask(source, "RANDOMKEY")
        if key is None:
            return False
        slot = self.ask(source, "CLUSTER", "KEYSLOT", key)
        until(lambda: self._moved(slot, source, target), what="the slot has moved")
        return True

    def _moved(self, slot: int, source: RedisServer, target: RedisServer) -> bool:
        # Retry if a node refuses at the moment; otherwise the slot would stay open.
        with self.moving(slot, source, target):
            return True

    def _is_master_of_some(self, node: RedisServer) -> bool:
        return self.ask(node, "ROLE")[0] == "master" and not self._is_down(node)

    def stop(self) -> None:
        """Stop all nodes and proxies."""
        super().stop()
        for bus in self._buses.values():
            bus.__exit__()
        self._buses.clear()


@shared_in_its_room
def shared_divided_cluster() -> DividedCluster:
    """Return a cluster that all tests of this folder share; heal it before use."""
    return DividedCluster().start()
