"""A cluster whose nodes can be cut off from each other, while clients still reach them all."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from typing import Any, Self

from servers.redis import ClusterNode, RedisServer, until
from servers.redis_cluster import ClusterServers
from servers.starting import free_ports

from holdfast.backends.redis.routing import SLOTS

HEAD, SENDER = 80, slice(40, 80)
"""Every message on the bus begins with so many bytes; who sends it stands in these."""


class Bus:
    """Stands between the nodes: each tells the others a port of ours as that of its bus."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._servers: list[asyncio.Server] = []
        self._ways: dict[asyncio.Task[None], tuple[str, int]] = {}
        self._cut: set[str | int] = set()

    def stand_before(self, bus: int) -> int:
        """Return the port behind which that bus can be reached."""
        [port] = free_ports(1)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer, bus)
            writer.close()

        self._servers.append(self._on_loop(asyncio.start_server, serve, "127.0.0.1", port))
        return port

    def cut_off(self, node: str, bus: int) -> None:
        """Let nothing through, from the node of that name or to it."""

        async def cut() -> None:
            self._cut |= {node, bus}
            for way, ends in self._ways.items():
                if self._cut & set(ends):
                    way.cancel()

        self._on_loop(cut)

    def mend(self) -> None:
        """Let everything through again."""
        self._cut.clear()

    def close(self) -> None:
        """Be gone."""

        async def close() -> None:
            for server in self._servers:
                server.close()
            for way in self._ways:
                way.cancel()

        self._on_loop(close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bus: int
    ) -> None:
        head = await reader.readexactly(HEAD)
        ends = head[SENDER].decode(), bus
        if self._cut & set(ends):
            return
        task = asyncio.current_task()
        assert task is not None
        self._ways[task] = ends
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", bus)
            forth.write(head)
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_pass_on(reader, forth))
                    both.create_task(_pass_on(back, writer))
            except* ConnectionError:
                pass  # one of them has gone
            finally:
                forth.close()
        finally:
            del self._ways[task]

    def _on_loop(self, function: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        async def call() -> Any:
            return await function(*args)

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    raise ConnectionResetError


class DividedCluster(ClusterServers):
    """Three masters, and a replica of one of them, which may take its place."""

    size = 4

    def __init__(self) -> None:
        super().__init__()
        self._bus = Bus()
        self._announced: dict[RedisServer, int] = {}

    def start(self) -> Self:
        """Return once every node says that the cluster is whole."""
        for _ in range(self.size):
            node = ClusterNode(*self.options)
            self._announced[node] = self._bus.stand_before(node.bus)
            node.options += ("--cluster-announce-bus-port", str(self._announced[node]))
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
        """Let the node join the others."""
        known = next(one for one in self.servers if one is not node)
        self.ask(node, "CLUSTER", "MEET", "127.0.0.1", known.port, self._announced[known])

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
        """Cut the master off from all other nodes; return its replica, once that is promoted."""
        replica = self.replica_of(master)
        assert isinstance(master, ClusterNode)
        self._bus.cut_off(self.id_of(master), master.bus)
        others = [one for one in self.servers if one is not master]
        asked_at = time.monotonic()

        def is_promoted() -> bool:
            nonlocal asked_at
            if all(self._names(one, replica) for one in others):
                return True
            if time.monotonic() - asked_at > 3.0:
                asked_at = time.monotonic()
                # An election may fail, in silence. And one that was reset may count the votes
                # of an earlier one: then its epoch is behind, and the others do not follow it.
                is_master = self.ask(replica, "ROLE")[0] == "master"
                prod = ("BUMPEPOCH",) if is_master else ("FAILOVER", "TAKEOVER")
                self.ask(replica, "CLUSTER", *prod)
            return False

        until(is_promoted, what="the replica is promoted")
        until(lambda: self._is_down(master), what="the master knows that it is alone")
        return replica

    def remove(self, master: RedisServer) -> RedisServer:
        """Take the node out of the cluster, as operators do; it goes on running.

        Return who serves its slots instead.
        """
        replica = self.replica_of(master)
        until(lambda: self._is_followed(master), what="the replica knows all")
        # Without an election: see `cut_off`.
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
        self._bus.mend()
        for one in self.servers:
            if "cluster_known_nodes:1\r" in self.ask(one, "CLUSTER", "INFO"):
                self._meet(one)
                others = [each for each in self.servers if each is not one]
                masters = [each for each in others if self.ask(each, "ROLE")[0] == "master"]
                self._follow(one, masters[0])
        super().heal()

    def move_something(self) -> None:
        """Let a slot that is in use change its node, if there is one."""
        masters = [one for one in self.servers if self._is_master_of_some(one)]
        source, target = random.sample(masters, 2)
        key = self.ask(source, "RANDOMKEY")
        if key is not None:
            slot = self.ask(source, "CLUSTER", "KEYSLOT", key)
            until(lambda: self._moved(slot, source, target), what="the slot has moved")

    def _moved(self, slot: int, source: RedisServer, target: RedisServer) -> bool:
        # Begun again where a node refused it for the moment, or the slot would stay open.
        with self.moving(slot, source, target):
            return True

    def _is_master_of_some(self, node: RedisServer) -> bool:
        return self.ask(node, "ROLE")[0] == "master" and not self._is_down(node)

    def stop(self) -> None:
        """End all of them."""
        super().stop()
        self._bus.close()


@cache
def shared_divided_cluster() -> DividedCluster:
    """Return a cluster that all tests of this run share; heal it before use."""
    return DividedCluster().start()
