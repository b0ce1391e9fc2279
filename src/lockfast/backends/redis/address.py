"""Server addresses, read from a URL or from the application's own client. No I/O.

Only the settings of a client are read. Its connections are never used, because our command could
wait behind the application's BLPOP, and the client could repeat a request that must not be
repeated.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from lockfast.core.descriptor import Endpoint, hosts_in, split
from lockfast.errors import ConfigurationError
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.backends.redis.routing import Remap

DEFAULT_PORT, DEFAULT_SENTINEL_PORT = 6379, 26379

Topology = Literal["single", "sentinel", "cluster"]


def _as_it_is(endpoint: Endpoint) -> Endpoint:
    return endpoint


@dataclass(frozen=True, slots=True)
class Address:
    """Everything needed to connect; `where` is its name in messages, without a password."""

    where: str
    topology: Topology
    options: dict[str, Any] = field(repr=False)
    """Options for the driver's data connections: credentials, TLS, and for a single server its
    host."""
    tls: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    """The Sentinels, or some nodes of the cluster."""
    service: str = ""
    """The Sentinels' name for the master."""
    sentinel_options: dict[str, Any] = field(default_factory=dict, repr=False)
    """Options for the driver's Sentinel clients."""
    remap: Remap = _as_it_is


# -- URLs ------------------------------------------------------------------------------


def address_of_url(url: str, *, where: str, options: Mapping[str, Any]) -> Address:
    """Return the address in a URL; `options` take precedence over the URL.

    The URL may also be `unix:///path.sock`, `redis+sentinel://host,host/master` and
    `redis+cluster://host,host`; `rediss+…` uses TLS to all servers.
    """
    parts = split(url)
    scheme, _, topology = parts.scheme.partition("+")
    given = checked_options(options, topology=topology)
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    found = {"username": unquote(user), "password": unquote(password)}
    settings: dict[str, Any] = {key: value for key, value in found.items() if value}
    of_sentinels = {
        key: given.pop(f"sentinel_{key}")
        for key in ("username", "password")
        if f"sentinel_{key}" in given
    }
    settings |= given
    if scheme == "unix":
        if not here.IS_POSIX:
            raise ConfigurationError("unix:// needs sockets that Python does not have on Windows")
        if hosts or not parts.path.strip("/"):
            raise ConfigurationError("unix:// takes the path of a socket: unix:///run/redis.sock")
        return Address(where, "single", {**settings, "path": unquote(parts.path)})
    tls = scheme == "rediss"
    if topology == "sentinel":
        service = unquote(parts.path.strip("/"))
        if not service or "/" in service:
            raise ConfigurationError(
                f"{where} must end in the name under which the Sentinels know the master: "
                f"{parts.scheme}://host1,host2,host3/mymaster"
            )
        endpoints = endpoints_of(hosts, port=DEFAULT_SENTINEL_PORT, where=where)
        of_sentinels |= {key: value for key, value in settings.items() if key.startswith("ssl_")}
        of_sentinels["ssl"] = tls
        return Address(
            where, "sentinel", settings, tls, endpoints, service, sentinel_options=of_sentinels
        )
    if parts.path.strip("/") or settings.get("db"):
        raise ConfigurationError(f"{where}: a cluster has no databases; leave the number out")
    settings.pop("db", None)
    return Address(
        where, "cluster", settings, tls, endpoints_of(hosts, port=DEFAULT_PORT, where=where)
    )


def endpoints_of(hosts: str, *, port: int, where: str) -> tuple[Endpoint, ...]:
    """Return the hosts in a URL, each with its port."""
    return tuple(Endpoint(*one) for one in hosts_in(hosts, port=port, where=where))


def checked_options(options: Mapping[str, Any], *, topology: str) -> dict[str, Any]:
    """Return the options as the driver takes them; raise if an option does not fit the topology."""
    found = dict(options)
    if topology != "sentinel" and (
        foreign := [one for one in found if one.startswith("sentinel_")]
    ):
        raise ConfigurationError(f"{', '.join(foreign)}: only for redis+sentinel://")
    if "db" in found:
        if not str(found["db"]).isdecimal():
            raise ConfigurationError(f"db={found['db']!r}: the number of a database is accepted")
        found["db"] = int(found["db"])
    return found


def check_place(url: str, *, where: str) -> None:
    """Raise if a single-server URL names several servers; an empty host means localhost."""
    parts = split(url)
    places = parts.netloc.rpartition("@")[2]
    if not places or places.startswith(":"):
        places = f"localhost{places}"
    if len(hosts_in(places, port=DEFAULT_PORT, where=where)) > 1:
        raise ConfigurationError(
            f"{where} names several servers; accepted: {parts.scheme}+cluster://{places} and "
            f"{parts.scheme}+sentinel://{places}/mymaster, and for servers that know nothing of "
            f"each other {parts.scheme.replace('redis', 'redlock')}://{places}"
        )


def database_in(url: str, *, where: str) -> dict[str, int]:
    """Return the database number in the URL's path as an option; empty if there is none.

    The driver silently treats anything that is not a number as the first database. Then two
    applications that were meant to be separate would exclude each other.
    """
    path = unquote(split(url).path).strip("/")
    if path and not (path.isascii() and path.isdecimal()):
        raise ConfigurationError(
            f"{where}: {path!r} is not the number of a database; to keep applications apart in "
            "one database, give each a namespace="
        )
    return {"db": int(path)} if path else {}


# -- clients ---------------------------------------------------------------------------

_KEPT = frozenset(
    {
        "host",
        "port",
        "path",
        "db",
        "username",
        "password",
        "credential_provider",
        "socket_keepalive",
        "socket_type",
    }
)


def address_of_client(client: object) -> Address:
    """Return the address that a redis-py or valkey-py client connects to, from its settings.

    The client is recognised by its attributes, not by its class, because valkey-py has classes of
    its own.
    """
    nodes: Any = getattr(client, "nodes_manager", None)
    if nodes is not None:
        return _of_cluster(nodes)
    pool: Any = getattr(client, "connection_pool", None)
    if pool is None or not hasattr(pool, "connection_kwargs"):
        raise ConfigurationError(
            f"{_name(type(client))} has no connection pool whose settings could be read"
        )
    settings = _kept(pool.connection_kwargs)
    tls = _is_tls(pool.connection_class)
    if hasattr(pool, "sentinel_manager"):
        return _of_sentinel(pool, settings, tls=tls)
    if "path" in settings:
        where = f"unix://{settings['path']}"
    else:
        endpoint = Endpoint(
            settings.get("host", "localhost"), int(settings.get("port", DEFAULT_PORT))
        )
        where = f"{_scheme(tls)}://{endpoint}/{settings.get('db', 0)}"
    return Address(where, "single", settings, tls)


def _of_sentinel(pool: Any, settings: dict[str, Any], *, tls: bool) -> Address:  # noqa: ANN401
    if not pool.is_master:
        raise ConfigurationError(
            "this client reads from replicas (slave_for), and locks are kept on the master; "
            "give one that master_for made"
        )
    pools = [one.connection_pool for one in pool.sentinel_manager.sentinels]
    sentinels = [one.connection_kwargs for one in pools]
    endpoints = tuple(Endpoint(one["host"], int(one["port"])) for one in sentinels)
    of_sentinels = {**_kept(sentinels[0]), "ssl": _is_tls(pools[0].connection_class)}
    for key in ("host", "port", "socket_type"):
        settings.pop(key, None)
        of_sentinels.pop(key, None)
    service = pool.service_name
    where = f"{_scheme(tls)}+sentinel://{','.join(map(str, endpoints))}/{service}"
    forced = getattr(pool.sentinel_manager, "_force_master_ip", None)
    return Address(
        where,
        "sentinel",
        settings,
        tls,
        endpoints,
        service,
        sentinel_options=of_sentinels,
        remap=_as_it_is if forced is None else lambda one: Endpoint(forced, one.port),
    )


def _of_cluster(nodes: Any) -> Address:  # noqa: ANN401
    kwargs = dict(nodes.connection_kwargs)
    settings = _kept(kwargs)
    for key in ("host", "port", "db"):
        settings.pop(key, None)
    tls = bool(kwargs.get("ssl")) or _is_tls(kwargs.get("connection_class"))
    known = [*nodes.startup_nodes.values(), *nodes.nodes_cache.values()]
    endpoints = tuple(dict.fromkeys(Endpoint(one.host, int(one.port)) for one in known))
    where = f"{_scheme(tls)}+cluster://{','.join(map(str, endpoints))}"
    remap = getattr(nodes, "address_remap", None)
    if remap is None:
        return Address(where, "cluster", settings, tls, endpoints)
    return Address(
        where, "cluster", settings, tls, endpoints, remap=lambda one: Endpoint(*remap(tuple(one)))
    )


def _kept(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in settings.items()
        if value is not None and (key in _KEPT or key.startswith("ssl_"))
    }


def _is_tls(kind: type | None) -> bool:
    return kind is not None and any("SSL" in one.__name__ for one in kind.__mro__)


def _scheme(tls: bool) -> str:  # noqa: FBT001 - the bool is not an option
    return "rediss" if tls else "redis"


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def host_name_checked(kind: type) -> dict[str, bool]:
    """Return the option that checks TLS host names, which is off by default before redis-py 6."""
    return {"ssl_check_hostname": True} if _is_tls(kind) else {}


def understood(options: Mapping[str, Any], *, by: type) -> dict[str, Any]:
    """Return only the options that the driver's class accepts; valkey-py has some of its own."""
    names = {
        name
        for kind in by.__mro__
        if kind is not object
        for name in inspect.signature(kind).parameters
    }
    return {key: value for key, value in options.items() if key in names}
