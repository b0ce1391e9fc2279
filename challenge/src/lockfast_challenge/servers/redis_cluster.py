"""A real Redis Cluster: masters that share the slots, and their replicas."""

from __future__ import annotations

import subprocess
import time
from binascii import crc_hqx
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from lockfast_challenge.servers.redis import ClusterNode, RedisServer, until
from lockfast_challenge.servers.server import CannotStart, Started, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lockfast_challenge.servers.certificates import Certificates

SLOTS = 16384


class ClusterServers(Started):
    """Three masters with one replica each; they use TLS if there are certificates."""

    size = 6
    options: tuple[str, str, str, str, str, str] = (
        *("--cluster-node-timeout", "500", "--repl-diskless-sync-delay", "0"),
        # Without this option all nodes refuse everything while one node is missing.
        *("--cluster-require-full-coverage", "no"),
    )

    def __init__(self, *, tls: Certificates | None = None) -> None:
        self.servers: list[RedisServer] = []
        self._tls = tls

    def start(self) -> Self:
        """Return once every node reports that the cluster is whole."""
        if lacks := missing({"redis-cli": "redis-tools"}):
            raise CannotStart(lacks)
        for _ in range(self.size):
            secure = ("--tls-cluster", "yes") if self._tls else ()
            node = ClusterNode(*self.options, *secure, tls=self._tls)
            self.servers.append(node.start())
        subprocess.run(
            [
                *("redis-cli", "--cluster", "create"),
                *(f"127.0.0.1:{one.port}" for one in self.servers),
                *("--cluster-replicas", "1", "--cluster-yes"),
                *self._as_redis_cli(),
            ],
            check=True,
            capture_output=True,
            timeout=30,
        )
        self.until_whole()
        return self

    @property
    def url(self) -> str:
        """The URL of the cluster; it names two nodes, which are enough to find all other nodes."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.servers[:2])
        return f"{'redis' if self._tls is None else 'rediss'}+cluster://{hosts}"

    @property
    def client_options(self) -> dict[str, str]:
        """Further options that a client needs."""
        return {} if self._tls is None else self._tls.client_options()

    def _as_redis_cli(self) -> tuple[str, ...]:
        if self._tls is None:
            return ()
        files = self._tls.certificate, "--key", self._tls.key, "--cacert", self._tls.authority
        return "--tls", "--cert", *files

    def until_whole(self) -> None:
        """Return once all nodes agree that the cluster is whole and that all replicas follow."""

        def is_whole() -> bool:
            masters, roles = self.masters(), self._roles(self.servers[0])
            return (len(masters), len(roles)) == (3, self.size) and all(
                "cluster_state:ok" in self.ask(one, "CLUSTER", "INFO") and self._roles(one) == roles
                for one in self.servers
            )

        until(is_whole, what="the cluster is whole")
        for master in self.with_replicas():
            until(partial(self._is_followed, master), what="a replica follows")

    def with_replicas(self) -> list[RedisServer]:
        """Return the masters that must have a replica."""
        return self.masters()

    def _is_followed(self, master: RedisServer) -> bool:
        with master.client() as client:
            client.execute_command("FUNCTION", "FLUSH")  # a write that needs no slot
            return int(client.wait(1, 100)) == 1

    def _roles(self, node: RedisServer) -> dict[int, str]:
        """Return the role of each node by port, as this node sees it; leave out failing nodes."""
        found = {}
        for line in self.ask(node, "CLUSTER", "NODES").splitlines():
            _, address, flags, _, _, _, _, link, *slots = line.split(" ")
            if link == "connected" and not {"fail", "fail?", "handshake"} & set(flags.split(",")):
                port = int(address.partition("@")[0].rpartition(":")[2])
                found[port] = "master" if "master" in flags and slots else "slave"
        return found

    def masters(self) -> list[RedisServer]:
        """Return the nodes that serve slots."""
        living = next(one for one in self.servers if one.process.poll() is None)
        roles = self._roles(living)
        return [one for one in self.servers if roles.get(one.port) == "master"]

    def owner_of(self, slot: int) -> RedisServer:
        """Return the master that serves a slot."""
        living = next(one for one in self.servers if one.process.poll() is None)
        for first, last, master, *_ in self.ask(living, "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(found for found in self.servers if found.port == master[1])
        raise AssertionError(f"nobody serves slot {slot}")

    def name_on(self, master: RedisServer, stem: str) -> str:
        """Return a name that the master serves."""
        slots = self.ask(master, "CLUSTER", "SLOTS")
        served = [range(one[0], one[1] + 1) for one in slots if one[2][1] == master.port]
        names = (f"{stem} {i}" for i in range(1000))
        return next(name for name in names if any(slot_of(name) in one for one in served))

    @contextmanager
    def moving(
        self, slot: int, source: RedisServer, target: RedisServer
    ) -> Iterator[Callable[[], None]]:
        """Yield a function that moves the keys of a slot; at the end, the target owns the slot."""
        set_slot = "CLUSTER", "SETSLOT", slot
        self.ask(target, *set_slot, "IMPORTING", self.id_of(source))
        self.ask(source, *set_slot, "MIGRATING", self.id_of(target))

        def move() -> None:
            keys = self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 1000)
            if keys:
                where = "127.0.0.1", target.port
                self.ask(source, "MIGRATE", *where, "", 0, 5000, "KEYS", *keys)

        yield move
        move()
        for one in (target, source):
            self.ask(one, *set_slot, "NODE", self.id_of(target))

    def replica_of(self, master: RedisServer) -> RedisServer:
        """Return the replica of this master."""
        [[_, port, _]] = self.ask(master, "ROLE")[2]
        return next(one for one in self.servers if one.port == int(port))

    def ask(self, node: RedisServer, *command: str | int) -> Any:
        """Return a node's reply to a command."""
        with node.client(decode_responses=True) as client:
            return client.execute_command(*command)

    def id_of(self, node: RedisServer) -> str:
        """Return a node's id in the cluster."""
        return str(self.ask(node, "CLUSTER", "MYID"))

    def fail_over(self, master: RedisServer) -> None:
        """Make a master's replica take over although the master is healthy."""
        replica = self.replica_of(master)
        asked_at = 0.0

        def is_master() -> bool:
            nonlocal asked_at
            if self.ask(replica, "ROLE")[0] == "master":
                return True
            if time.monotonic() - asked_at > 1.0:  # an attempt may fail silently
                asked_at = time.monotonic()
                self.ask(replica, "CLUSTER", "FAILOVER")
            return False

        until(is_master, what="the replica is promoted")

    def cut_off_replica(self, master: RedisServer) -> RedisServer:
        """Keep new writes of the master from reaching its replica, as in `Sentinels`."""
        replica = self.replica_of(master)
        replica.pause()
        self.ask(master, "CLIENT", "KILL", "TYPE", "replica")
        return replica

    def cut_off_replicas(self) -> list[RedisServer]:
        """Cut off all replicas."""
        return [self.cut_off_replica(master) for master in self.masters()]

    def heal(self) -> None:
        """Restart dead nodes; return once all nodes agree."""
        for one in self.servers:
            if one.process.poll() is not None:
                one.start()
        self.until_whole()

    def stop(self) -> None:
        """Stop all nodes."""
        for one in self.servers:
            one.stop()


def slot_of(name: str) -> int:
    """Return the slot of a name's keys, whose hash tag is the name; the name has no braces."""
    return crc_hqx(name.encode(), 0) % SLOTS
