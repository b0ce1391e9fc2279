"""What a store declares (its schemes and the clients it adopts), and URLs with several hosts."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from lockfast.core.server_options import SERVER_ALIASES, TLS_OPTIONS
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

# Parse URLs that may name several hosts, and show them without secrets.

_HOST_AND_PORT: Final = r"(\[[^]]*\]|[^:,]*)(:\d*)?"
"""A host name, or an address in brackets, and its port."""
_HOSTS_AND_PORTS: Final = re.compile(f"{_HOST_AND_PORT}(,{_HOST_AND_PORT})*").fullmatch


def split(url: str) -> SplitResult:
    """Return the parts of a URL that may have several hosts; ValueError if it is malformed."""
    parts = _split(url)
    if (mistake := _encoding_mistake(parts)) is not None:
        raise ConfigurationError(f"the URL {masked(url)!r} cannot be read: {mistake}")
    return parts


def _split(url: str) -> SplitResult:
    # Newer Python versions treat the whole netloc as one host, and accept no text before a bracket,
    # so they would refuse `h1,[::1]:5`. So check each host separately.
    scheme, separator, rest = url.partition("://")
    end = min((rest.index(one) for one in "/?#" if one in rest), default=len(rest))
    place, others = rest[:end], rest[end:]
    if not separator or "," not in place or "[" not in place:
        return urlsplit(url)
    login, at, hosts = place.rpartition("@")
    for one in hosts.split(","):
        urlsplit(f"{scheme}://{login}{at}{one}")
    return urlsplit(f"{scheme}://{others}")._replace(netloc=place)


def _encoding_mistake(parts: SplitResult) -> str | None:
    """Return a message about a character that must be percent-encoded, or None if there is none.

    Such a character in a password makes a parser split the URL in the wrong place. The parser would
    then take a piece of the password for a port, a database or an option, and the error would show
    that piece.
    """
    if parts.fragment:
        return "a # is written %23"  # no store accepts a fragment
    if parts.netloc and "@" in parts.path:
        return "a / in a user or a password is written %2F, and an @ after the host %40"
    names = [one.partition("=")[0] for one in parts.query.split("&")]
    is_login = "@" in parts.query and "@" not in parts.netloc and not _HOSTS_AND_PORTS(parts.netloc)
    if is_login or any("@" in one for one in names):
        return "a ? in a user or a password is written %3F"
    return None


class Endpoint(NamedTuple):
    """Where a server listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def hosts_in(text: str, *, port: int, where: str) -> tuple[Endpoint, ...]:
    """Return the hosts in a comma-separated list, each with its own port or else with `port`."""
    found = tuple(_host(one, port, where) for one in text.split(",") if one)
    if not found:
        raise ConfigurationError(f"{where} names no host")
    return found


def _host(text: str, port: int, where: str) -> Endpoint:
    # The text is a name or an address in brackets, such as [::1]:6379, with or without a port.
    host, bracket, rest = text.partition("]")
    if bracket:
        host, number = host.lstrip("["), rest.lstrip(":")
    else:
        host, _, number = text.partition(":")
    if not host or not (number or "1").isdecimal():
        raise ConfigurationError(f"{where}: {text!r} is not a host or host:port")
    if int(number or 1) not in range(1, 65536):
        raise ConfigurationError(f"{where}: the port is a number below 65536, not {number}")
    return Endpoint(host, int(number or port))


def settings_in(url: str, options: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the options with the login in the URL, which they override, and the URL's hosts."""
    credentials, _, hosts = split(url).netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    login = {"username": unquote(user), "password": unquote(password)}
    return {key: value for key, value in login.items() if value} | dict(options), hosts


def masked(url: str) -> str:
    """Return the URL without anything that may be secret, for errors, logs and reports.

    If a password contains a slash or a hash, a parser splits the URL in the wrong place, and a
    piece of the password would be shown. So the URL is masked as text: everything before the last @
    is removed, and after a question mark every value that is not known to be harmless.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    _, at, place = rest.rpartition("@")
    place, question, query = place.partition("?")
    options = "&".join(_masked_option(one) for one in query.split("&") if one)
    return f"{scheme}{separator}{'***@' if at else ''}{place}{question}{options}"


_HARMLESS = (TLS_OPTIONS | SERVER_ALIASES.keys() | {"db"}) - {"ssl_password", "tls_key_password"}
_PLAIN_VALUE = re.compile(r"[\w./-]*").fullmatch


def _masked_option(option: str) -> str:
    name, _, value = option.partition("=")
    return option if name in _HARMLESS and _PLAIN_VALUE(value) else f"{name}=***"


# What a store declares before its driver is needed: its URLs, and the clients that it adopts.
#
# The `descriptor.py` in each package of `lockfast.backends` declares them and imports no driver,
# because an error that lists the accepted URLs or clients reads the descriptors of all stores.


def server_arguments(url: SplitResult, namespace: str) -> dict[str, Any]:
    """Return the arguments of a backend that connects to a server; `url` is without its query."""
    plain = f"{url.scheme}://{url.netloc}{url.path}"
    return {"url": plain, "location": masked(plain), "namespace": namespace}


def server_with_databases(url: SplitResult, namespace: str) -> dict[str, Any]:
    """Return the arguments of a backend for Redis; raise if the URL names two databases.

    An option in the code may override the path, but a URL that contradicts itself is a mistake, and
    two applications that read it differently would not exclude each other.
    """
    arguments = server_arguments(url, namespace)
    in_path, in_query = unquote(url.path).strip("/"), dict(parse_qsl(url.query)).get("db")
    has_path = url.scheme.partition("+")[2] != "sentinel" and url.scheme != "unix"
    if has_path and in_path and in_query is not None and in_path != in_query:
        raise ConfigurationError(
            f"{arguments['location']}: the path and db={in_query} are two databases; give one of "
            "them"
        )
    return arguments


def is_asyncio_class(kind: type) -> bool:
    """Whether a class, or one of its bases, is defined in a package called asyncio."""
    return any("asyncio" in one.__module__.split(".") for one in kind.__mro__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignClients:
    """The clients of other libraries that a store adopts, recognised by their packages."""

    packages: frozenset[str]
    """The top-level packages of these clients. A subclass of a class in one of these packages
    counts too, wherever it is defined.
    """
    listed_as: str
    """How the error for an unknown client lists these clients."""
    options: frozenset[str] = frozenset()
    """Options accepted together with such a client; all other settings are the client's own."""
    is_asyncio: Callable[[type], bool] | None = None
    """Returns whether a class is for asyncio, and not sync. The function is None if both flavours
    accept the class.
    """
    is_ours: Callable[[Any], bool] | None = None
    """Returns whether a client connects to this store. The function is None if no other store uses
    the package.
    """
    objection: Callable[[Any], str | None] | None = None
    """Returns the reason why a client of this store is refused nevertheless, or None to accept the
    client. The function itself is None if no client is refused.
    """
    refused: Mapping[str, str] = field(default_factory=dict)
    """Packages whose classes only resemble these clients, each with the reason for refusal."""

    def objection_to(self, client: object) -> str | None:
        """Return why a client that looks like one of these is refused; None if it is accepted."""
        if self.objection is not None and self.includes(client):
            return self.objection(client)
        return next((self.refused[one] for one in _roots(client) if one in self.refused), None)

    def includes(self, client: object) -> bool:
        """Return whether these clients include the given one."""
        if self.packages.isdisjoint(_roots(client)):
            return False
        return self.is_ours is None or self.is_ours(client)


def _roots(client: object) -> list[str]:
    return [one.__module__.partition(".")[0] for one in type(client).__mro__]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreDescriptor:
    """What `lockfast.urls` needs to know about one store."""

    backend: str
    """The name of the backend class in `_sync/backend.py`; in `_async`, the name begins with
    `Async`.
    """
    schemes: Mapping[str, str]
    """Each scheme with an example URL."""
    scheme_aliases: Mapping[str, str] = field(default_factory=dict)
    """Schemes that other libraries use for this store, each with the scheme to write instead."""
    arguments: Callable[[SplitResult, str], dict[str, Any]] = server_arguments
    """Returns the backend's arguments for a URL and a namespace; options are passed separately."""
    named_file: Callable[[SplitResult], Path | None] | None = None
    """Returns the file that a URL names, if any. The function is None if opening a URL creates no
    file.
    """
    extra: str | None = None
    """The Lockfast extra that installs the store's driver; None if the store needs no driver."""
    driver_needs: str = ""
    """A further requirement of the driver, for the error when the driver cannot be loaded."""
    clients: tuple[ForeignClients, ...] = ()
    """The clients that the store adopts."""
    together: ForeignClients | None = None
    """Clients that form one store together, each connected to a server of its own."""
    removed: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """Option values that older versions accepted, each with what to use instead."""
    factory_options: frozenset[str] | None = None
    """Options accepted together with a connection factory; None if no factory is accepted."""
