"""Real ZooKeeper servers: a single one, an ensemble, and a partitionable ensemble."""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from kazoo.client import KazooClient

from lockfast_challenge.processes import EVENTUALLY_SECONDS, eventually
from lockfast_challenge.servers.proxy import Proxy
from lockfast_challenge.servers.server import Server, Three, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator


TICK_SECONDS = 0.1
"""Unit of time of these servers; a session expires at the first tick after its timeout."""

SYNC_LIMIT = 20
"""Number of ticks without contact after which a leader and a follower give each other up."""

SERVER_SETTINGS: dict[str, object] = {
    "tickTime": round(TICK_SECONDS * 1000),
    "initLimit": 50,
    "syncLimit": SYNC_LIMIT,
    "maxSessionTimeout": 120_000,
    "maxClientCnxns": 0,
    "clientPortAddress": "127.0.0.1",
    "admin.enableServer": "false",  # every server would want port 8080
    "4lw.commands.whitelist": "*",
}

JAVA = (
    *("java", "-Xms16m", "-Xmx128m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-XX:-UsePerfData", "-Xshare:auto", "-Xlog:disable"),
    # Initial size of the log file, in kB; the default is 64 MB for each server.
    "-Dzookeeper.preAllocSize=256",
    # Durability is not under test, and even without a sync, writes survive the kill of a process.
    "-Dzookeeper.forceSync=no",
    # A voter without a result doubles its wait each time, by default up to a minute. An ensemble
    # that fell apart on a busy machine would then not recover within a test.
    "-Dzookeeper.fastleader.maxNotificationInterval=1000",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
CLASSES = (
    *("/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"),
    # These jars are for TLS; the manifest of zookeeper.jar names all other jars.
    *("/usr/share/java/netty-codec.jar", "/usr/share/java/netty-resolver.jar"),
)


class ZooKeeperServer(Server):
    """One server; its data outlive the process.

    A setting whose value is None is left out. `java` holds options for the virtual machine.
    """

    kind = "zookeeper"
    packages: ClassVar[dict[str, str]] = {
        "java": "default-jre-headless",
        CLASSES[0]: "libzookeeper-java",
    }

    def __init__(
        self, *, settings: dict[str, object] | None = None, java: tuple[str, ...] = ()
    ) -> None:
        super().__init__()
        self.java = java
        self.settings: dict[str, object] = SERVER_SETTINGS | (settings or {})

    @property
    def url(self) -> str:
        """The URL that names only this server."""
        return f"zookeeper://{self.address}"

    def command(self) -> list[str]:
        """Return the command line, after writing the settings file."""
        path = self.directory / "zoo.cfg"
        found = self.settings | {"clientPort": self.port, "dataDir": self.data}
        path.write_text("".join(f"{key}={found[key]}\n" for key in found if found[key] is not None))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [*JAVA, *self.java, "-cp", ":".join(CLASSES), main, str(path)]

    def serves(self) -> bool:
        """Whether the server reports a mode; `ruok` gets a reply long before the server serves."""
        return self.mode() is not None

    def mode(self) -> str | None:
        """Return standalone, leader or follower; None while the server does not serve."""
        # The timeout is short and callers retry, because a server that is still starting may accept
        # the command and never reply.
        for line in self.ask("srvr", within=0.3).splitlines():
            key, _, value = line.partition(": ")
            if key == "Mode":
                return value
        return None

    def ask(self, word: str, *, within: float = 2.0) -> str:
        """Return the reply to a four-letter word; empty if the server does not reply."""
        answer = b""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=within) as connection:
                connection.sendall(word.encode())
                while data := connection.recv(65536):
                    answer += data
        except OSError:
            return ""
        return answer.decode()

    def figures(self) -> dict[str, int]:
        """Return the counters of `mntr`, such as zk_packets_received."""
        found = {}
        for line in self.ask("mntr").splitlines():
            key, _, value = line.partition("\t")
            with suppress(ValueError):  # not a number, such as the version
                found[key] = int(float(value))
        return found

    @contextmanager
    def client(self, **options: Any) -> Iterator[KazooClient]:
        """Yield a plain kazoo client, connected."""
        with connected(self.address, **options) as client:
            yield client


class Ensemble(Three[ZooKeeperServer]):
    """Three servers that elect a leader among themselves."""

    kind = "ensemble"
    scheme = "zookeeper"

    def __init__(self, *, settings: dict[str, object] | None = None) -> None:
        super().__init__()
        self._settings = settings or {}

    def make(self) -> list[ZooKeeperServer]:
        """Return three servers that are configured with each other's addresses."""
        members = [ZooKeeperServer() for _ in range(3)]
        self._configure(members)
        return members

    def _configure(self, members: list[ZooKeeperServer]) -> None:
        """Give each server its id and the addresses of the other servers."""
        ports = free_ports(6)
        quorum, election = ports[:3], ports[3:]
        for number, one in enumerate(members):
            one.data.mkdir()
            (one.data / "myid").write_text(str(number + 1))
            one.settings |= self._settings
            one.settings |= {
                f"server.{i + 1}": f"127.0.0.1:{self.way(number, i, quorum[i])}"
                f":{self.election_way(number, i, election[i])}"
                for i in range(3)
            }

    def way(self, member: int, other: int, port: int) -> int:
        """Return the quorum port of `other` as `member` must use it, to connect or to listen."""
        del member, other
        return port

    def election_way(self, member: int, other: int, port: int) -> int:
        """Return the election port of `other` as `member` must use it, to connect or to listen."""
        del member, other
        return port

    def leader(self) -> ZooKeeperServer:
        """Return the current leader; wait if an election is under way."""
        found: list[ZooKeeperServer] = []

        def is_found() -> bool:
            # Keep the result, because the leader may be too slow to reply a second time.
            found[:] = [one for one in self.members if one.is_running and one.mode() == "leader"]
            return bool(found)

        eventually(is_found, what="somebody leads")
        return found[0]

    def followers(self) -> list[ZooKeeperServer]:
        """Return all running members except the leader; the ensemble must be complete."""
        leader = self.leader()
        return [one for one in self.members if one.is_running and one is not leader]

    def until_whole(self) -> None:
        """Return once one member leads and the other members follow it."""
        eventually(
            lambda: (
                sorted(one.mode() or "" for one in self.members)
                == ["follower", "follower", "leader"]
            ),
            what="one leads and two follow",
        )
        eventually(
            lambda: self.leader().figures().get("zk_synced_followers") == len(self.members) - 1,
            what="both are in step",
        )

    @contextmanager
    def client(self, **options: Any) -> Iterator[KazooClient]:
        """Yield a plain kazoo client, connected to any member."""
        with connected(self.address, **options) as client:
            yield client


@contextmanager
def connected(hosts: str, **options: Any) -> Iterator[KazooClient]:
    """Yield a plain kazoo client that connects and reconnects quickly."""
    quick = {"max_tries": -1, "delay": 0.02, "max_delay": 0.1}
    client = KazooClient(hosts, connection_retry=quick, **options)
    with ExitStack() as stack:
        stack.callback(client.close)
        stack.callback(client.stop)
        client.start(timeout=EVENTUALLY_SECONDS)
        yield client


# Partitions between the members of an ensemble.

# A leader listens only once it leads. A follower whose connection the proxy accepts and then resets
# would begin another election, while a follower that is refused simply tries again. So the proxy
# waits for the leader to listen.
PeerProxy: partial[Proxy] = partial(Proxy, listens_within=2.0)
"""A proxy between a member and a port of another member, which can be cut silently."""


class PartitionableEnsemble(Ensemble):
    """An ensemble whose members can be cut off from each other, but not from their clients."""

    def __init__(self, *, settings: dict[str, object] | None = None) -> None:
        super().__init__(settings=settings)
        self._quorum_proxies: dict[tuple[int, int], Proxy] = {}
        self._election_proxies: dict[tuple[int, int], Proxy] = {}

    def way(self, member: int, other: int, port: int) -> int:
        """Return the port of a new proxy; for a member's own port, return that port itself."""
        if member == other:
            return port
        found = self._quorum_proxies[member, other] = PeerProxy(port)
        return found.__enter__().port

    def election_way(self, member: int, other: int, port: int) -> int:
        """Return the port of a new proxy; for a member's own port, return that port itself."""
        if member == other:
            return port
        found = self._election_proxies[member, other] = PeerProxy(port)
        return found.__enter__().port

    def cut_off(self, follower: ZooKeeperServer) -> None:
        """Cut the connection between a follower and its leader.

        Only connections to the quorum port, which followers open to their leader, are cut. The
        members still communicate over the election ports.
        """
        for (member, _), way in self._quorum_proxies.items():
            if self.members[member] is follower:
                way.cut()

    def depose(self, leader: ZooKeeperServer, *, silently: bool) -> None:
        """Cut a leader off from all other members while clients can still reach the leader.

        If `silently`, no member is notified, and all members wait for each other for the same time.
        Otherwise the followers notice at once and elect another leader, and the old leader does not
        notice.
        """
        number = self.members.index(leader)
        for ends, way in self._election_proxies.items():
            if number in ends:
                way.cut()
        for (member, other), way in self._quorum_proxies.items():
            if other == number:
                way.cut(told=not silently)
            elif member == number:
                way.cut()

    def heal(self) -> Self:
        """Mend all proxies, wait until cut-off members have reconnected, and heal the ensemble."""
        cut = {member for (member, _), way in self._quorum_proxies.items() if way.is_refusing}
        for way in self._all_proxies():
            if way.is_refusing:
                way.mend()
        for member in cut:
            eventually(partial(self._is_back, member), what="it is back")
        return super().heal()

    def _is_back(self, member: int) -> bool:
        return self.members[member].mode() == "leader" or any(
            way.connections for (one, _), way in self._quorum_proxies.items() if one == member
        )

    def stop(self) -> None:
        """Stop all members, and the proxies between them."""
        super().stop()
        for way in self._all_proxies():
            way.__exit__()
        self._quorum_proxies.clear()
        self._election_proxies.clear()

    def _all_proxies(self) -> list[Proxy]:
        return [*self._quorum_proxies.values(), *self._election_proxies.values()]
