"""Real Redis and Valkey servers: alone, or as nodes of a cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from lockfast_challenge.processes import eventually
from lockfast_challenge.servers.server import Server, free_ports
from lockfast_challenge.servers.shifted_clock import ShiftedClock

if TYPE_CHECKING:
    from lockfast_challenge.servers.certificates import Certificates

until: partial[None] = partial(eventually, despite=(redis.RedisError,))
"""Wait until the condition is true; a request that fails counts as not yet true."""


class RedisServer(Server):
    """One `redis-server`, which keeps no data on disk unless the options say so.

    With certificates the server accepts only TLS and requires a client certificate. With a password
    it requires the password.
    """

    kind = "redis"
    packages: ClassVar[dict[str, str]] = {"redis-server": "redis-server"}
    program = "redis-server"

    def __init__(
        self,
        *options: str,
        environment: dict[str, str] | None = None,
        tls: Certificates | None = None,
        password: str = "",
    ) -> None:
        super().__init__(environment=environment)
        self.options = options
        self.tls = tls
        self.password = password

    @property
    def url(self) -> str:
        """The server's URL, without the password."""
        return f"{'redis' if self.tls is None else 'rediss'}://{self.address}"

    @property
    def client_options(self) -> dict[str, str]:
        """Further options that a Lockfast client needs."""
        certificates = {} if self.tls is None else self.tls.client_options()
        return {**certificates, **({"password": self.password} if self.password else {})}

    def command(self) -> list[str]:
        """Return the command line."""
        return [
            self.program,
            *self.listening(),
            *("--dir", str(self.directory), "--save", "", "--appendonly", "no"),
            *self.options,
        ]

    def listening(self) -> list[str]:
        """Return the options for the server's address, password and TLS."""
        options = ["--bind", "127.0.0.1"]
        if self.password:
            options += ["--requirepass", self.password, "--masterauth", self.password]
        if self.tls is None:
            return [*options, "--port", str(self.port)]
        return [
            *(*options, "--port", "0", "--tls-port", str(self.port), "--tls-replication", "yes"),
            *("--tls-cert-file", self.tls.certificate, "--tls-key-file", self.tls.key),
            *("--tls-ca-cert-file", self.tls.authority),
        ]

    def serves(self) -> bool:
        """Whether the server answers PING, even with an error."""
        try:
            with self.client() as client:
                client.ping()
        except (redis.AuthenticationError, redis.ResponseError):
            return True
        except redis.ConnectionError:
            return False
        return True

    def calls(self, command: str = "evalsha") -> int:
        """Return how often this command was called; most of our requests are an EVALSHA."""
        with self.client() as client:
            found = client.info("commandstats")
            return int(found.get(f"cmdstat_{command}", {"calls": 0})["calls"])

    def client(self, **options: Any) -> redis.Redis:
        """Return a plain redis-py client that does not retry."""
        options = {"ssl": self.tls is not None, **self.client_options, **options}
        return redis.Redis("127.0.0.1", self.port, retry=Retry(NoBackoff(), 0), **options)


class ClusterNode(RedisServer):
    """A node of a cluster, which is alone until it meets other nodes.

    The cluster bus uses a free port, because its default, 10,000 above the server's own port, may
    be too large for a port, and then the server does not start.
    """

    bus: int

    def __init__(self, *options: str, **security: Any) -> None:
        [self.bus] = free_ports(1)
        bus = "--cluster-enabled", "yes", "--cluster-port", str(self.bus)
        super().__init__(*bus, *options, **security)


class ShiftedRedis(ShiftedClock, RedisServer):
    """A Redis server whose clock can be set."""
