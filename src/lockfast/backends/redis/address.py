"""Addresses of servers, read from a URL or from the application's own client. No I/O.

Only the settings of a client are read. Its connections are never used, because our command could
wait behind the application's BLPOP, and the client could repeat a request that must not be
repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from lockfast.backends.network.target import Target
from lockfast.backends.network.tls import tls_of_client, tls_of_options
from lockfast.backends.redis.handshake import Login
from lockfast.core.descriptor import Endpoint, hosts_in, settings_in, split
from lockfast.core.server_options import (
    LOGIN_OPTIONS,
    SERVER_ALIASES,
    TLS_OPTIONS,
    server_options,
)
from lockfast.errors import ConfigurationError
from lockfast.platforms import here

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.backends.redis.routing import Remap

DEFAULT_PORT, DEFAULT_SENTINEL_PORT = 6379, 26379

SERVER_OPTIONS = TLS_OPTIONS | LOGIN_OPTIONS | {"client_name", "credential_provider", "db"}
"""The options of a server, accepted in a URL or as keyword arguments."""

SENTINEL_OPTIONS = frozenset({"sentinel_password", "sentinel_username"})

Topology = Literal["single", "sentinel", "cluster"]


def checked_options(
    given: Mapping[str, Any], *, what: str, where: str, has_sentinels: bool = False
) -> dict[str, Any]:
    """Return the options of servers by our own names; raise for unknown or contradictory ones."""
    accepted = SERVER_OPTIONS | SENTINEL_OPTIONS if has_sentinels else SERVER_OPTIONS
    return server_options(given, accepted=accepted, what=what, where=where)


def _as_it_is(endpoint: Endpoint) -> Endpoint:
    return endpoint


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A server, and how a connection to it begins."""

    target: Target
    login: Login = Login()  # noqa: RUF009 - it is immutable
    db: int = 0
    client_name: str = ""

    def at(self, endpoint: Endpoint, *, where: str | None = None) -> ServerSettings:
        """Return the same settings for another server."""
        target = replace(self.target, endpoint=endpoint, where=where or self.target.where)
        return replace(self, target=target)


@dataclass(frozen=True, slots=True)
class Address:
    """Everything needed to connect."""

    topology: Topology
    server: ServerSettings
    """The server; of Sentinels and of a cluster only the settings for all data servers."""
    endpoints: tuple[Endpoint, ...] = ()
    """The Sentinels, or some nodes of the cluster."""
    service: str = ""
    """The Sentinels' name for the master."""
    sentinel: ServerSettings | None = None
    """The settings for all Sentinels."""
    remap: Remap = _as_it_is

    @property
    def where(self) -> str:
        """The name of the store in messages, without a password."""
        return self.server.target.where


# -- URLs ------------------------------------------------------------------------------


def address_of_url(url: str, *, where: str, options: Mapping[str, Any]) -> Address:
    """Return the address in a URL; `options` take precedence over the URL.

    The URL may also be `unix:///path.sock`, `redis+sentinel://host,host/master` and
    `redis+cluster://host,host`; `rediss+…` uses TLS to all servers.
    """
    parts = split(url)
    scheme, _, topology = parts.scheme.partition("+")
    if topology != "sentinel" and (foreign := sorted(SENTINEL_OPTIONS & options.keys())):
        raise ConfigurationError(
            f"{where}: {', '.join(foreign)} is only for redis+sentinel:// and rediss+sentinel://"
        )
    settings, hosts = settings_in(url, options)
    if scheme == "unix":
        return Address("single", _at_socket(parts.path, hosts, settings, where=where))
    if not topology:
        hosts = f"localhost{hosts}" if not hosts or hosts.startswith(":") else hosts
        endpoint, *others = hosts_in(hosts, port=DEFAULT_PORT, where=where)
        if others:
            raise ConfigurationError(
                f"{where} names several servers; accepted: {scheme}+cluster://{hosts} and "
                f"{scheme}+sentinel://{hosts}/mymaster, and for servers that know nothing of "
                f"each other {scheme.replace('redis', 'redlock')}://{hosts}"
            )
        settings = database_in(url, where=where) | settings
        return Address("single", server_of(Target(where, endpoint), settings, scheme=scheme))
    server = server_of(Target(where, None), settings, scheme=parts.scheme)
    if topology == "sentinel":
        service, slash, rest = unquote(parts.path.strip("/")).partition("/")
        if not service or slash:
            database = f"; give the database as ?db={rest}" if rest.isdecimal() else ""
            raise ConfigurationError(
                f"{where} must end in the name under which the Sentinels know the master: "
                f"{parts.scheme}://host1,host2,host3/mymaster{database}"
            )
        login = Login(options.get("sentinel_username", ""), options.get("sentinel_password", ""))
        endpoints = hosts_in(hosts, port=DEFAULT_SENTINEL_PORT, where=where)
        sentinel = ServerSettings(server.target, login)
        return Address("sentinel", server, endpoints, service, sentinel)
    if parts.path.strip("/") or server.db:
        raise ConfigurationError(f"{where}: a cluster has no databases; leave the number out")
    return Address("cluster", server, hosts_in(hosts, port=DEFAULT_PORT, where=where))


def server_of(target: Target, settings: Mapping[str, Any], *, scheme: str) -> ServerSettings:
    """Return a server with these settings; `scheme` is that of the URL, and may ask for TLS."""
    tls = tls_of_options(settings, where=target.where, scheme=scheme)
    return _server_at(replace(target, tls=tls), settings)


def _server_at(target: Target, settings: Mapping[str, Any]) -> ServerSettings:
    return ServerSettings(
        target,
        _login(settings, where=target.where),
        _database(settings.get("db"), where=target.where),
        _client_name(settings.get("client_name"), where=target.where),
    )


def _at_socket(path: str, hosts: str, settings: Mapping[str, Any], *, where: str) -> ServerSettings:
    if not here.IS_POSIX:
        raise ConfigurationError("unix:// needs sockets that Python does not have on Windows")
    if hosts or not path.strip("/"):
        raise ConfigurationError("unix:// takes the path of a socket: unix:///run/redis.sock")
    given = TLS_OPTIONS & settings.keys()
    foreign = sorted(one for one in given if one != "tls" or settings[one])
    if foreign:
        raise ConfigurationError(
            f"{where}: a socket of this machine has no TLS; leave {', '.join(foreign)} out"
        )
    return _server_at(Target(where, None, unquote(path)), settings)


def _login(settings: Mapping[str, Any], *, where: str) -> Login:
    username, password = (settings.get(one) or "" for one in ("username", "password"))
    provider = settings.get("credential_provider")
    if provider is not None and (username or password):
        raise ConfigurationError(
            f"{where}: credential_provider returns user and password, so give no others beside it"
        )
    if provider is not None and not hasattr(provider, "get_credentials"):
        raise ConfigurationError(
            f"{where}: credential_provider is an object with get_credentials(), as in redis-py, "
            f"not {type(provider).__name__}"
        )
    return Login(username, password, provider)


def _database(given: object, *, where: str) -> int:
    if given is None:
        return 0
    if not (str(given).isascii() and str(given).isdecimal()):
        raise ConfigurationError(
            f"{where}: db must be a database number such as 0, not {str(given)!r}"
        )
    return int(str(given))


def _client_name(given: object, *, where: str) -> str:
    name = "" if given is None else str(given)
    if any(not "!" <= one <= "~" for one in name):
        raise ConfigurationError(
            f"{where}: client_name={name!r}: Redis accepts printable ASCII characters without "
            "spaces"
        )
    return name


def database_in(url: str, *, where: str) -> dict[str, int]:
    """Return the database number in the URL's path as an option; empty if there is none.

    Anything that is not a number is refused. If it meant the first database, two applications that
    were meant to be separate would exclude each other.
    """
    path = unquote(split(url).path).strip("/")
    if path and not (path.isascii() and path.isdecimal()):
        raise ConfigurationError(
            f"{where}: the path must be a database number such as /0, not {path!r}; to keep "
            "applications apart in one database, give each a namespace="
        )
    return {"db": int(path)} if path else {}


# -- clients ---------------------------------------------------------------------------


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
    settings, is_secure = pool.connection_kwargs, _is_tls(pool.connection_class)
    if hasattr(pool, "sentinel_manager"):
        return _of_sentinel(pool, settings, is_secure=is_secure)
    if settings.get("path"):
        target = Target(f"unix://{settings['path']}", None, settings["path"])
    else:
        endpoint = Endpoint(
            settings.get("host") or "localhost", int(settings.get("port") or DEFAULT_PORT)
        )
        target = Target(f"{_scheme(is_secure)}://{endpoint}/{settings.get('db') or 0}", endpoint)
    return Address("single", _server_of_client(target, settings, is_secure=is_secure))


def _server_of_client(
    target: Target, settings: Mapping[str, Any], *, is_secure: bool
) -> ServerSettings:
    names = SERVER_OPTIONS | (SERVER_ALIASES.keys() if is_secure else frozenset())
    known = {name: settings[name] for name in names & settings.keys()}
    ours = checked_options(known, what="this client", where=target.where)
    if ours.get("credential_provider") is not None:
        ours = {name: value for name, value in ours.items() if name not in LOGIN_OPTIONS}
    tls = tls_of_client(ours, settings, where=target.where) if is_secure else None
    return _server_at(replace(target, tls=tls), ours)


def _of_sentinel(pool: Any, settings: Mapping[str, Any], *, is_secure: bool) -> Address:  # noqa: ANN401
    if not pool.is_master:
        raise ConfigurationError(
            "this client reads from replicas (slave_for), and locks are kept on the master; "
            "give one that master_for made"
        )
    pools = [one.connection_pool for one in pool.sentinel_manager.sentinels]
    sentinels = [one.connection_kwargs for one in pools]
    endpoints = tuple(Endpoint(one["host"], int(one["port"])) for one in sentinels)
    service = pool.service_name
    where = f"{_scheme(is_secure)}+sentinel://{','.join(map(str, endpoints))}/{service}"
    forced = getattr(pool.sentinel_manager, "_force_master_ip", None)
    target = Target(where, None)
    return Address(
        "sentinel",
        _server_of_client(target, settings, is_secure=is_secure),
        endpoints,
        service,
        _server_of_client(target, sentinels[0], is_secure=_is_tls(pools[0].connection_class)),
        _as_it_is if forced is None else lambda one: Endpoint(forced, one.port),
    )


def _of_cluster(nodes: Any) -> Address:  # noqa: ANN401
    settings = {**nodes.connection_kwargs, "db": None}
    is_secure = bool(settings.get("ssl")) or _is_tls(settings.get("connection_class"))
    known = [*nodes.startup_nodes.values(), *nodes.nodes_cache.values()]
    endpoints = tuple(dict.fromkeys(Endpoint(one.host, int(one.port)) for one in known))
    target = Target(f"{_scheme(is_secure)}+cluster://{','.join(map(str, endpoints))}", None)
    remap = getattr(nodes, "address_remap", None)
    return Address(
        "cluster",
        _server_of_client(target, settings, is_secure=is_secure),
        endpoints,
        remap=_as_it_is if remap is None else lambda one: Endpoint(*remap(tuple(one))),
    )


def _is_tls(kind: type | None) -> bool:
    return kind is not None and any("SSL" in one.__name__ for one in kind.__mro__)


def _scheme(is_secure: bool) -> str:  # noqa: FBT001 - the bool is not an option
    return "rediss" if is_secure else "redis"


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
