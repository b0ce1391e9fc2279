"""Real ZooKeeper servers: one, or an ensemble of three.

Ticks are short, so that sessions may be: a session lasts 2 ticks at least.
"""

from __future__ import annotations

import socket
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

from kazoo.client import KazooClient

from lockfast.challenge.eventually import PATIENCE, eventually
from lockfast.challenge.servers.starting import Server, Three, free_ports

if TYPE_CHECKING:
    from collections.abc import Iterator

TICK = 0.1
"""What the servers of this page count time in; a session ends at the tick after its end."""

SYNC_LIMIT = 20
"""So many ticks may leader and follower not hear each other, before they part."""

SETTINGS: dict[str, object] = {
    "tickTime": round(TICK * 1000),
    "initLimit": 50,
    "syncLimit": SYNC_LIMIT,
    "maxSessionTimeout": 120_000,
    "maxClientCnxns": 0,
    "clientPortAddress": "127.0.0.1",
    "admin.enableServer": "false",  # it would want port 8080, and every server the same
    "4lw.commands.whitelist": "*",
}

JAVA = (
    *("java", "-Xms16m", "-Xmx128m", "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-XX:-UsePerfData", "-Xshare:auto", "-Xlog:disable"),
    # The log file is made as large as this at once, by default 64 MB for each server.
    "-Dzookeeper.preAllocSize=256",
    # The disk is not on trial, and what was written outlives a killed process without it.
    "-Dzookeeper.forceSync=no",
    # Who votes in vain waits twice as long each time, up to a minute by default: an ensemble
    # that fell apart on a busy machine would not find together again within a test.
    "-Dzookeeper.fastleader.maxNotificationInterval=1000",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
)
CLASSES = (
    *("/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"),
    # For TLS; the manifest of the first names all others.
    *("/usr/share/java/netty-codec.jar", "/usr/share/java/netty-resolver.jar"),
)


class ZooKeeperServer(Server):
    """One server; what it was told outlives its process.

    A setting of None leaves that setting out. `java` are options for its virtual machine.
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
        self.settings: dict[str, object] = SETTINGS | (settings or {})

    @property
    def url(self) -> str:
        """The URL of this server alone."""
        return f"zookeeper://{self.address}"

    def command(self) -> list[str]:
        """Return what is run, with its settings written down."""
        path = self.directory / "zoo.cfg"
        found = self.settings | {"clientPort": self.port, "dataDir": self.data}
        path.write_text("".join(f"{key}={found[key]}\n" for key in found if found[key] is not None))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [*JAVA, *self.java, "-cp", ":".join(CLASSES), main, str(path)]

    def serves(self) -> bool:
        """Whether it says in what mode; `ruok` is answered with `imok` long before it serves."""
        return self.mode() is not None

    def mode(self) -> str | None:
        """Return standalone, leader or follower; None while it does not serve."""
        # Soon, and again: one that is only starting may take the word and never answer it.
        for line in self.ask("srvr", within=0.3).splitlines():
            key, _, value = line.partition(": ")
            if key == "Mode":
                return value
        return None

    def ask(self, word: str, *, within: float = 2.0) -> str:
        """Return the answer to a four-letter word; nothing from a server that is not there."""
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
        """Return what `mntr` counts, such as zk_packets_received."""
        found = {}
        for line in self.ask("mntr").splitlines():
            key, _, value = line.partition("\t")
            with suppress(ValueError):  # a word, such as the version
                found[key] = int(float(value))
        return found

    @contextmanager
    def client(self, **options: Any) -> Iterator[KazooClient]:
        """Give a plain client of kazoo, connected."""
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
        """Return three that know of each other."""
        members = [ZooKeeperServer() for _ in range(3)]
        self._introduce(members)
        return members

    def _introduce(self, members: list[ZooKeeperServer]) -> None:
        """Tell each of them who it is, and where the others are."""
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
        """Return the port by which a member reaches the quorum port of another, or binds it."""
        del member, other
        return port

    def election_way(self, member: int, other: int, port: int) -> int:
        """Return the port by which a member reaches the election port of another."""
        del member, other
        return port

    def leader(self) -> ZooKeeperServer:
        """Return who leads now; wait if an election is on."""
        found: list[ZooKeeperServer] = []

        def is_found() -> bool:
            # Kept: who is asked twice may be too slow to answer the second time.
            found[:] = [one for one in self.members if one.is_running and one.mode() == "leader"]
            return bool(found)

        eventually(is_found, what="somebody leads")
        return found[0]

    def followers(self) -> list[ZooKeeperServer]:
        """Return who follows, in an ensemble that is whole: all but the leader."""
        leader = self.leader()
        return [one for one in self.members if one.is_running and one is not leader]

    def until_whole(self) -> None:
        """Return once one leads and the others follow it."""
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
        """Give a plain client of kazoo, connected to any of them."""
        with connected(self.address, **options) as client:
            yield client


@contextmanager
def connected(hosts: str, **options: Any) -> Iterator[KazooClient]:
    """Give a plain client of kazoo that connects quickly, and again quickly."""
    quick = {"max_tries": -1, "delay": 0.02, "max_delay": 0.1}
    client = KazooClient(hosts, connection_retry=quick, **options)
    with ExitStack() as stack:
        stack.callback(client.close)
        stack.callback(client.stop)
        client.start(timeout=PATIENCE)
        yield client
