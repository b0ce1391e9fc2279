"""Real topologies for tests: a master watched by Sentinels, and a cluster.

Their timers are short, so that a failover takes about two seconds; see servers.md of the
research for what each of them costs.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import redis
from servers.certificates import Certificates, certificates
from servers.redis import ClusterNode, RedisServer

from holdfast.backends.redis.requests import Keys
from holdfast.backends.redis.routing import slot_of_key

SERVICE = "mymaster"


def until(condition: Callable[[], object], *, within: float = 20.0, what: str) -> None:
    """Wait until the condition is true; a server that does not answer is not yet there."""
    deadline = time.monotonic() + within
    while True:
        try:
            if condition():
                return
        except redis.RedisError as error:
            what = f"{what} ({error})"
        assert time.monotonic() < deadline, f"not in {within} s: {what}"
        time.sleep(0.01)


def calls(server: RedisServer, command: str = "evalsha") -> int:
    """Return how often a server was asked so; most of what we do is an EVALSHA."""
    with server.client() as client:
        return client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


class Sentinels:
    """A master, two replicas, and Sentinels that watch them, three if not told otherwise.

    `first` are options of the first master alone. The servers and the Sentinels may have
    passwords of their own, and all of them speak TLS if there are certificates.
    """

    def __init__(
        self,
        *first: str,
        tls: Certificates | None = None,
        password: str = "",
        sentinel_password: str = "",
        count: int = 3,
        down_after: float = 0.5,
    ) -> None:
        self.servers: list[RedisServer] = []
        self.sentinels: list[RedisServer] = []
        self._first = first
        self._count = count
        self._down_after = down_after
        self._tls = tls
        self._password = password
        self._sentinel_password = sentinel_password

    def start(self) -> Self:
        """Return once every Sentinel knows all the others, and replication is live."""
        security = {"tls": self._tls, "password": self._password}
        quick = "--repl-diskless-sync-delay", "0"
        master = RedisServer(*quick, *self._first, **security).start()
        self.servers.append(master)
        for _ in range(2):
            follow = ("--replicaof", "127.0.0.1", str(master.port))
            self.servers.append(RedisServer(*quick, *follow, **security).start())
        for _ in range(self._count):
            sentinel = _Sentinel(
                master, password=self._sentinel_password, down_after=self._down_after
            )
            self.sentinels.append(sentinel.start())
        # The hello period of two seconds would be the longest part of the start. Put back
        # afterwards: left so short, it made a failover take half a minute.
        self.tell_sentinels("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "100")
        until(self._is_whole, what="the Sentinels know each other")
        self.tell_sentinels("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "2000", "INFO-PERIOD", "10000")
        self.until_replicated(2)
        return self

    @property
    def url(self) -> str:
        """The URL of what the Sentinels watch."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        return f"{'redis' if self._tls is None else 'rediss'}+sentinel://{hosts}/{SERVICE}"

    @property
    def client_options(self) -> dict[str, str]:
        """What a client has to know besides."""
        found = {"password": self._password, "sentinel_password": self._sentinel_password}
        certificates = {} if self._tls is None else self._tls.client_options()
        return {**certificates, **{key: value for key, value in found.items() if value}}

    @property
    def master(self) -> RedisServer:
        """Whom the Sentinels call the master."""
        with self.sentinels[0].client(decode_responses=True) as client:
            _, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(one for one in self.servers if one.port == int(port))

    @property
    def replicas(self) -> list[RedisServer]:
        """All others."""
        master = self.master
        return [one for one in self.servers if one is not master]

    def until_replicated(self, count: int) -> None:
        """Return once so many replicas receive what is written from now on."""

        def are_live() -> bool:
            with self.master.client() as client:
                client.set("base", "1")
                return client.wait(count, 100) >= count

        until(are_live, what="replication is live")

    def until_failed_over(self, old: RedisServer) -> RedisServer:
        """Return the new master, once all Sentinels name it and it takes writes."""

        def is_new() -> bool:
            if self.master is old:
                return False
            with self.master.client() as client:
                return bool(client.set("base", "2"))

        until(is_new, what="a new master")
        return self.master

    def cut_off_replicas(self) -> list[RedisServer]:
        """Let what the master acknowledges from now on reach nobody else.

        Frozen alone would not do: the kernel keeps what was sent for when they run again.
        """
        replicas = self.replicas
        for one in replicas:
            one.pause()
        with self.master.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        return replicas

    def fail_over(self) -> None:
        """Let the Sentinels choose another master, though this one is well."""
        with self.sentinels[0].client() as client:
            client.execute_command("SENTINEL", "FAILOVER", SERVICE)

    def stop(self) -> None:
        """End all of them."""
        for one in (*self.sentinels, *self.servers):
            one.stop()

    def tell_sentinels(self, *command: str) -> None:
        """Run a command on each of them."""
        for one in self.sentinels:
            with one.client() as client:
                client.execute_command(*command)

    def _is_whole(self) -> bool:
        for one in self.sentinels:
            with one.client() as client:
                state = client.sentinel_master(SERVICE)
            if (state["num-other-sentinels"], state["num-slaves"]) != (self._count - 1, 2):
                return False
        return True

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Sentinel(RedisServer):
    """A Sentinel; it writes its own configuration file."""

    def __init__(self, watched: RedisServer, *, password: str, down_after: float) -> None:
        super().__init__(tls=watched.tls, password=password)
        self._down_after = down_after
        self._watched = watched

    def command(self) -> list[str]:
        path = self.directory / "sentinel.conf"
        watched = self._watched
        if not path.exists():
            path.write_text(
                f"dir {self.directory}\n"
                f"sentinel monitor {SERVICE} 127.0.0.1 {watched.port} 2\n"
                f"sentinel down-after-milliseconds {SERVICE} {self._down_after * 1000:.0f}\n"
                f"sentinel failover-timeout {SERVICE} 2000\n"
                f"sentinel parallel-syncs {SERVICE} 2\n"
                + (f"sentinel auth-pass {SERVICE} {watched.password}\n" if watched.password else "")
            )
        return [self.program, str(path), "--sentinel", *self.listening()]


class ClusterServers:
    """Three masters with a replica each; they speak TLS if there are certificates."""

    size = 6
    options = (
        *("--cluster-node-timeout", "500", "--repl-diskless-sync-delay", "0"),
        # Otherwise all nodes refuse everything while one of them is missing.
        *("--cluster-require-full-coverage", "no"),
    )

    def __init__(self, *, tls: Certificates | None = None) -> None:
        self.servers: list[RedisServer] = []
        self._tls = tls

    def start(self) -> Self:
        """Return once every node says that the cluster is whole."""
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
        """The URL of the cluster; two of its nodes are enough to find the rest."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.servers[:2])
        return f"{'redis' if self._tls is None else 'rediss'}+cluster://{hosts}"

    @property
    def client_options(self) -> dict[str, str]:
        """What a client has to know besides."""
        return {} if self._tls is None else self._tls.client_options()

    def _as_redis_cli(self) -> tuple[str, ...]:
        if self._tls is None:
            return ()
        files = self._tls.certificate, "--key", self._tls.key, "--cacert", self._tls.authority
        return "--tls", "--cert", *files

    def until_whole(self) -> None:
        """Return once all nodes agree that all is well, and replicas follow their masters."""

        def is_whole() -> bool:
            masters, roles = self.masters(), self._roles(self.servers[0])
            return (len(masters), len(roles)) == (3, self.size) and all(
                "cluster_state:ok" in self.ask(one, "CLUSTER", "INFO") and self._roles(one) == roles
                for one in self.servers
            )

        until(is_whole, what="the cluster is whole")
        for master in self.with_replicas():
            until(lambda master=master: self._is_followed(master), what="a replica follows")

    def with_replicas(self) -> list[RedisServer]:
        """Return the masters that must have one each."""
        return self.masters()

    def _is_followed(self, master: RedisServer) -> bool:
        with master.client() as client:
            client.execute_command("FUNCTION", "FLUSH")  # a write that belongs to no slot
            return client.wait(1, 100) == 1

    def _roles(self, node: RedisServer) -> dict[int, str]:
        """Return who is what, by port, as a node sees it; those in trouble are left out."""
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

    def name_on(self, master: RedisServer, stem: str, *, namespace: str) -> str:
        """Return a name that the master serves."""
        slots = self.ask(master, "CLUSTER", "SLOTS")
        served = [range(one[0], one[1] + 1) for one in slots if one[2][1] == master.port]
        names = (f"{stem} {i}" for i in range(1000))
        return next(
            name
            for name in names
            if any(slot_of(name, namespace=namespace) in one for one in served)
        )

    @contextmanager
    def moving(
        self, slot: int, source: RedisServer, target: RedisServer
    ) -> Iterator[Callable[[], None]]:
        """Open a slot, and give what moves its keys; it is the target's when the block is left."""
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
        """Return the node that follows it."""
        [[_, port, _]] = self.ask(master, "ROLE")[2]
        return next(one for one in self.servers if one.port == int(port))

    def ask(self, node: RedisServer, *command: str | int) -> Any:
        """Return a node's answer to a command."""
        with node.client(decode_responses=True) as client:
            return client.execute_command(*command)

    def id_of(self, node: RedisServer) -> str:
        """Return what the cluster calls a node."""
        return self.ask(node, "CLUSTER", "MYID")

    def fail_over(self, master: RedisServer) -> None:
        """Let its replica take its place, though the master is well."""
        replica = self.replica_of(master)
        asked_at = 0.0

        def is_master() -> bool:
            nonlocal asked_at
            if self.ask(replica, "ROLE")[0] == "master":
                return True
            if time.monotonic() - asked_at > 1.0:  # the attempt may be given up, in silence
                asked_at = time.monotonic()
                self.ask(replica, "CLUSTER", "FAILOVER")
            return False

        until(is_master, what="the replica is promoted")

    def cut_off_replica(self, master: RedisServer) -> RedisServer:
        """Let what the master acknowledges from now on reach nobody else; see Sentinels."""
        replica = self.replica_of(master)
        replica.pause()
        self.ask(master, "CLIENT", "KILL", "TYPE", "replica")
        return replica

    def cut_off_replicas(self) -> list[RedisServer]:
        """Cut all of them off."""
        return [self.cut_off_replica(master) for master in self.masters()]

    def heal(self) -> None:
        """Return once all nodes run and agree."""
        for one in self.servers:
            if one.process.poll() is not None:
                one.start()
        self.until_whole()

    def stop(self) -> None:
        """End all of them."""
        for one in self.servers:
            one.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def slot_of(name: str, *, namespace: str = "holdfast") -> int:
    """Return the slot of a name's keys."""
    return slot_of_key(Keys(namespace).door(name))


@cache
def shared_sentinels() -> Sentinels:
    """Return servers that all tests of this run share; each uses its own namespace."""
    # None of them ends the master; a short patience would replace it when it is slow once.
    return Sentinels(down_after=20.0).start()


@cache
def shared_cluster() -> ClusterServers:
    """Return a cluster that all tests of this run share; each uses its own namespace."""
    return ClusterServers().start()


@cache
def shared_closed_sentinels() -> Sentinels:
    """Return servers and Sentinels with TLS and a password each, for all tests of this run."""
    # None of them ends the master, see above; a failover that is ordered does not wait for it.
    closed = {"tls": certificates(), "password": "s3rver", "sentinel_password": "s3ntinel"}
    return Sentinels(**closed, down_after=20.0).start()


@cache
def shared_tls_cluster() -> ClusterServers:
    """Return a cluster that speaks TLS alone, for all tests of this run."""
    return ClusterServers(tls=certificates()).start()
