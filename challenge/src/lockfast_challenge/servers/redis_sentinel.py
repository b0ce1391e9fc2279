"""A real Redis master, watched by Sentinels.

The timers of the Sentinels are short, so that a failover takes about two seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lockfast_challenge.servers.redis import RedisServer, until
from lockfast_challenge.servers.server import Started

if TYPE_CHECKING:
    from lockfast_challenge.servers.certificates import Certificates

SERVICE = "mymaster"


class Sentinels(Started):
    """A master, two replicas, and `count` Sentinels that watch them.

    `first` holds options for only the first master. The servers and the Sentinels may have
    different passwords, and all of them use TLS if there are certificates.
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
        """Return once every Sentinel knows all other Sentinels, and replication works."""
        security: dict[str, Any] = {"tls": self._tls, "password": self._password}
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
        # The start would mostly consist of waiting for the hello period of two seconds, so the
        # period is shortened. It is restored afterwards, because with such a short period a
        # failover took half a minute.
        self.tell_sentinels("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "100", "INFO-PERIOD", "100")
        until(self._is_whole, what="the Sentinels know each other")
        self.tell_sentinels("SENTINEL", "DEBUG", "PUBLISH-PERIOD", "2000", "INFO-PERIOD", "10000")
        self.until_replicated(2)
        return self

    @property
    def url(self) -> str:
        """The URL of the service that the Sentinels watch."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        return f"{'redis' if self._tls is None else 'rediss'}+sentinel://{hosts}/{SERVICE}"

    @property
    def client_options(self) -> dict[str, str]:
        """Further options that a client needs."""
        found = {"password": self._password, "sentinel_password": self._sentinel_password}
        certificates = {} if self._tls is None else self._tls.client_options()
        return {**certificates, **{key: value for key, value in found.items() if value}}

    @property
    def master(self) -> RedisServer:
        """The master that the Sentinels report."""
        with self.sentinels[0].client(decode_responses=True) as client:
            _, port = client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(one for one in self.servers if one.port == int(port))

    @property
    def replicas(self) -> list[RedisServer]:
        """All servers except the master."""
        master = self.master
        return [one for one in self.servers if one is not master]

    def until_replicated(self, count: int) -> None:
        """Return once this many replicas receive new writes."""
        until(lambda: self.is_replicated(count), what="replication is live")

    def is_replicated(self, count: int) -> bool:
        """Return whether this many replicas have received a write made just now."""
        with self.master.client() as client:
            client.set("base", "1")
            return int(client.wait(count, 100)) >= count

    def until_failed_over(self, old: RedisServer) -> RedisServer:
        """Return the new master, once the first Sentinel reports it and it accepts writes."""

        def is_new() -> bool:
            if self.master is old:
                return False
            with self.master.client() as client:
                return bool(client.set("base", "2"))

        until(is_new, what="a new master")
        return self.master

    def bring_back(self, server: RedisServer) -> None:
        """Restart a dead server as a replica of the current master, unless it is the master itself.

        If this were left to the Sentinels, the server would be a second master for ten seconds. A
        server that was first started as a replica would follow its original master.
        """
        master = self.master
        options = list(server.options)
        if "--replicaof" in options:
            place = options.index("--replicaof")
            del options[place : place + 3]
        if server is not master:
            options += ["--replicaof", "127.0.0.1", str(master.port)]
        server.options = tuple(options)
        server.spawn()
        server.until_it_serves()

    def cut_off_replicas(self) -> list[RedisServer]:
        """Keep new writes of the master from reaching its replicas; return the frozen replicas.

        Freezing the replicas is not enough, because once they run again, the kernel would deliver
        the writes that were already sent. So the master's connections to the replicas are closed as
        well.
        """
        replicas = self.replicas
        for one in replicas:
            one.pause()
        with self.master.client() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        return replicas

    def fail_over(self) -> None:
        """Have the Sentinels choose another master although the current master is healthy."""
        with self.sentinels[0].client() as client:
            client.execute_command("SENTINEL", "FAILOVER", SERVICE)

    def replace(self, dead: RedisServer) -> RedisServer:
        """Make the Sentinels choose a new master at once, and return this master."""

        def is_begun() -> bool:
            if self.master is dead:
                self.fail_over()  # fails while no replica is known to be healthy
            return True

        until(is_begun, what="the Sentinels replace the master")
        return self.until_failed_over(dead)

    def settle(self) -> None:
        """Return once all Sentinels report one master and all other servers follow this master.

        Once no failover is under way, a server that does not follow the master is made to do so,
        because the Sentinels would wait for ten seconds.
        """
        until(self._is_settled, what="both replicas follow the master")

    def _is_settled(self) -> bool:
        master = self.master
        for one in self.sentinels:
            with one.client(decode_responses=True) as client:
                state = client.sentinel_master(SERVICE)
            if (state["port"], state["flags"]) != (master.port, "master"):
                return False
        with master.client() as client:
            if client.role()[0] != b"master":
                return False
        for other in self.servers:
            with other.client() as client:
                role = client.role()
                if other is not master and (role[0], role[2]) != (b"slave", master.port):
                    client.replicaof("127.0.0.1", master.port)
        return self.is_replicated(len(self.servers) - 1)

    def stop(self) -> None:
        """Stop all Sentinels and servers."""
        for one in (*self.sentinels, *self.servers):
            one.stop()

    def tell_sentinels(self, *command: str) -> None:
        """Run a command on each Sentinel."""
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


class _Sentinel(RedisServer):
    """A Sentinel, which rewrites its own configuration file."""

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
