"""Servers of the user's own: nothing is started, and they are struck by their own commands only.

A client comes by proxies where the URL says all that there is to say of where the servers are.
Where they tell it themselves (Sentinel, Cluster), or show a certificate with their name, it comes
as it is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from lockfast.challenge.deployments.ways import Ways
from lockfast.challenge.servers.starting import Started
from lockfast.core.locating import hosts_in, masked, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from lockfast.challenge.deployments.ways import Place
    from lockfast.challenge.fault import Fault
    from lockfast.challenge.servers.proxy import Proxy

PORTS = {
    "redis": 6379,
    "redlock": 6379,
    "postgresql": 5432,
    "postgres": 5432,
    "mysql": 3306,
    "mariadb": 3306,
    "memcached": 11211,
    "etcd": 2379,
    "zookeeper": 2181,
}
"""The schemes whose URLs say where all servers are, without TLS, and the port if it is not said."""


class Given(Started):
    """A deployment that was there before, and is there afterwards."""

    def __init__(
        self,
        url: str,
        *,
        store: str,
        documented: Mapping[str, str],
        faults: Sequence[Fault] = (),
    ) -> None:
        self.store = store
        self.url = url
        self._documented = documented
        self._faults = faults
        self._parts = split(url)
        self._login, self._at, hosts = self._parts.netloc.rpartition("@")
        self._places = self._places_in(hosts)
        self._ways = Ways(lambda: self._places)

    def _places_in(self, hosts: str) -> Sequence[Place]:
        options = {key for key, _ in parse_qsl(self._parts.query, keep_blank_values=True)}
        # libpq and others take hosts, sockets and certificates from options too.
        speaks_elsewhere = options & {"host", "hostaddr", "service", "unix_socket", "use_ssl"}
        is_checked = any(one.startswith("ssl") for one in options)
        port = PORTS.get(self._parts.scheme)
        if port is None or not hosts or speaks_elsewhere or is_checked:
            return ()
        return hosts_in(hosts, port=port, where=masked(self.url))

    def start(self) -> Self:
        """There is nothing to start."""
        return self

    def stop(self) -> None:
        """End the ways."""
        self._ways.close()

    def url_for(self, client: int) -> str:
        """See the protocol."""
        if not self._places:
            return self.url
        hosts = ",".join(one.address for one in self._ways.of(client))
        return self._parts._replace(netloc=f"{self._login}{self._at}{hosts}").geturl()

    def ways(self, client: int) -> Sequence[Proxy]:
        """See the protocol."""
        return self._ways.of(client)

    def faults(self) -> Sequence[Fault]:
        """See the protocol."""
        return self._faults

    def forgives(self, kind: str) -> str:
        """See the protocol."""
        return self._documented.get(kind, "")
