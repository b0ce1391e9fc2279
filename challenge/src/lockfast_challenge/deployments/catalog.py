"""The stores that can be started or named by a URL, and what is missing if a store cannot start."""

from __future__ import annotations

import importlib
import shutil
from math import inf
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from lockfast.core.descriptor import hosts_in, masked, split
from lockfast.errors import pip_install
from lockfast.urls import declared
from lockfast_challenge.deployments.own_servers import Proxies
from lockfast_challenge.servers.run_directory import run_directory
from lockfast_challenge.servers.server import CannotStart, Started

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Self

    from lockfast_challenge.deployments.own_servers import ServerAddress
    from lockfast_challenge.faults.fault import Deployment, Fault
    from lockfast_challenge.outcome import Exemption
    from lockfast_challenge.servers.proxy import Proxy


# Servers that the user runs: nothing is started, and faults on servers are made only with the
# servers' own commands.
#
# Clients connect through proxies if the URL alone says where the servers are. If the servers
# announce addresses themselves (Sentinel, Cluster), or show a certificate with their name, clients
# connect directly.

DEFAULT_PORTS = {
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
"""Default ports of the schemes whose URLs name all servers and use no TLS."""


class ExistingDeployment(Started):
    """A deployment that exists before the run and stays after it."""

    def __init__(
        self,
        url: str,
        *,
        store: str,
        exemptions: Sequence[Exemption],
        faults: Sequence[Fault] = (),
    ) -> None:
        self.store = store
        self.url = url
        self.exemptions = exemptions
        self._faults = faults
        self._parts = split(url)
        self._login, self._at, hosts = self._parts.netloc.rpartition("@")
        self._places = self._places_in(hosts)
        self._proxies = Proxies(lambda: self._places)

    def _places_in(self, hosts: str) -> Sequence[ServerAddress]:
        options = {key for key, _ in parse_qsl(self._parts.query, keep_blank_values=True)}
        # libpq and others also take hosts, sockets and certificates from options.
        names_hosts_in_options = options & {"host", "hostaddr", "service", "unix_socket", "use_ssl"}
        uses_tls = any(one.startswith("ssl") for one in options)
        port = DEFAULT_PORTS.get(self._parts.scheme)
        if port is None or not hosts or names_hosts_in_options or uses_tls:
            return ()
        return hosts_in(hosts, port=port, where=masked(self.url))

    def start(self) -> Self:
        """Do nothing, because the servers are already running."""
        return self

    def stop(self) -> None:
        """Close the proxies."""
        self._proxies.close()

    def url_for(self, client: int) -> str:
        if not self._places:
            return self.url
        hosts = ",".join(one.address for one in self._proxies.of(client))
        return self._parts._replace(netloc=f"{self._login}{self._at}{hosts}").geturl()

    def proxies_of(self, client: int) -> Sequence[Proxy]:
        return self._proxies.of(client)

    def faults(self) -> Sequence[Fault]:
        return self._faults


# The stores that can be started for a challenge, and what is missing if one cannot be started.

_STORES = {
    "redis": ("redis", "redis"),
    "sentinel": ("redis", "replicated_redis"),
    "cluster": ("redis", "replicated_redis"),
    "redlock": ("redlock", "redlock"),
    "postgresql": ("postgresql", "postgresql"),
    "mysql": ("mysql", "mysql"),
    "mariadb": ("mysql", "mysql"),
    "zookeeper": ("zookeeper", "zookeeper"),
    "etcd": ("etcd", "clusters"),
    "memcached": ("memcached", "single_server"),
    "sqlite": ("sqlite", "catalog"),
}
"""Maps each store to a backend and a module of this package.

The store's clients use the backend, whose driver also controls the servers. The module has the
deployment, a class with the store's name. A module is imported when its store is chosen, so that a
challenge needs only the driver of its own store.
"""

STORES = tuple(_STORES)
"""The values of `--start`."""

_SCHEMES = {
    "rediss": "redis",
    "unix": "redis",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
    "redlocks": "redlock",
    "postgres": "postgresql",
    "etcds": "etcd",
}
"""Maps a URL scheme to its store, if the two names differ."""

GIVEN_NOT_ALLOWED = "it would strike servers that others may use, and nobody said that it may"


def example_url(store: str, *, ttl: float) -> str:
    """Return a URL that shows what the store offers if its servers are started for this ttl.

    Nothing is at the address.
    """
    examples = declared(_STORES[store][0]).schemes
    example = examples.get(store) or next(iter(examples.values()))
    return f"{example}?max_ttl={ttl}" if store == "redlock" else example


REDLOCK_MAX_TTL_SECONDS = 60.0
"""The longest lease of a Redlock URL that says nothing about it, in seconds."""


def longest_lease(url: str) -> float:
    """Return the longest lease, in seconds, that a client with this URL accepts."""
    parts = split(url)
    if _SCHEMES.get(parts.scheme, parts.scheme) != "redlock":
        return inf
    return float(dict(parse_qsl(parts.query)).get("max_ttl", REDLOCK_MAX_TTL_SECONDS))


def own_servers(store: str, *, ttl: float) -> AbstractContextManager[Deployment]:
    """Return a deployment whose servers run during its block; `ttl` is the ttl of the leases.

    If the servers cannot be started, this call or entering the block raises CannotStart, which says
    what to install.
    """
    if store not in _STORES:
        raise CannotStart(f"there are no servers of {store!r} to start: {', '.join(STORES)}")
    return cast("Callable[..., AbstractContextManager[Deployment]]", _kind(store))(ttl=ttl)


def given(url: str, *, ttl: float, may_break: bool = False) -> AbstractContextManager[Deployment]:
    """Return the deployment at a URL, whose servers are neither started nor stopped.

    Unless `may_break` is true, a run makes no fault that other users of these servers would notice.
    """
    del ttl
    scheme = url.partition(":")[0]
    store = _SCHEMES.get(scheme, scheme)
    if store not in _STORES:
        raise CannotStart(
            f"a challenge of {scheme}:// is not known; one of these is: {', '.join(STORES)}"
        )
    exemptions = _kind(store).exemptions
    faults: Sequence[Fault] = ()
    if _STORES[store][0] == "redis":
        on_given_servers = importlib.import_module("lockfast_challenge.faults.on_given_servers")
        lacks = "" if may_break else GIVEN_NOT_ALLOWED
        faults = on_given_servers.redis_faults(url, store=store, lacks=lacks)
    return ExistingDeployment(url, store=store, exemptions=exemptions, faults=faults)


def _kind(store: str) -> Any:  # noqa: ANN401 - the deployment class of the store
    backend, module_name = _STORES[store]
    try:
        module = importlib.import_module(f"lockfast_challenge.deployments.{module_name}")
    except ImportError as error:
        extra = declared(backend).extra
        words = str(error).partition("\n")[0].rstrip(".")
        raise CannotStart(
            f"a challenge of {store} needs a driver that cannot be loaded ({words}): "
            f"{pip_install(extra or 'challenge')}"
        ) from error
    return getattr(module, store.capitalize())


# A local file: there is no server, so faults strike only clients.


class Sqlite(Started):
    """`sqlite://`, in a directory that is deleted at the end of the block."""

    store = "sqlite"
    exemptions: Sequence[Exemption] = ()

    def __init__(self, *, ttl: float) -> None:
        del ttl
        self._directory = run_directory("lockfast-challenge-")
        self.url: str = f"sqlite://{self._directory / 'locks.db'}"

    def start(self) -> Self:
        """Do nothing, because there is no server to start."""
        return self

    def stop(self) -> None:
        """Delete the file."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def url_for(self, client: int) -> str:
        del client
        return self.url

    def proxies_of(self, client: int) -> Sequence[Proxy]:
        del client
        return ()

    def faults(self) -> Sequence[Fault]:
        return ()
