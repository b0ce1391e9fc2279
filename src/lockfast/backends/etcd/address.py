"""The cluster's members, the login, and the prefix of our keys, read from a URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lockfast.backends.network.tls import tls_of_options
from lockfast.core.descriptor import hosts_in, settings_in, split
from lockfast.core.server_options import LOGIN_OPTIONS, TLS_OPTIONS
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.backends.network.tls import TlsOptions
    from lockfast.core.descriptor import Endpoint

DEFAULT_PORT = 2379

OPTIONS = TLS_OPTIONS | LOGIN_OPTIONS
"""The options that may accompany the URL."""


@dataclass(frozen=True, slots=True)
class Address:
    """A cluster and the place of our keys in it; `where` names the cluster, without a password."""

    where: str
    endpoints: tuple[Endpoint, ...]
    prefix: str
    namespace: str
    tls: TlsOptions | None = field(repr=False)
    user: str = field(repr=False, default="")
    password: str = field(repr=False, default="")

    @property
    def root(self) -> bytes:
        """The prefix of all keys of this namespace."""
        return f"{self.prefix}{self.namespace}/".encode()


class Preference:
    """The member that all sessions of a client use first, namely the member used last."""

    __slots__ = ("has_answered", "number")

    def __init__(self) -> None:
        self.number: int = 0
        """Index of the member in the address."""
        self.has_answered: bool = False
        """Whether any member has ever answered, which shows that at least this part of the URL is
        right."""


def of_url(url: str, *, where: str, namespace: str, options: Mapping[str, Any]) -> Address:
    """Return the address in `etcd://user:password@host1,host2:2379/prefix`; `etcds://` uses TLS."""
    parts = split(url)
    settings, hosts = settings_in(url, options)
    user, password = settings.get("username", ""), settings.get("password", "")
    if bool(user) != bool(password):
        raise ConfigurationError(f"{where}: a login is a user and a password; one is missing")
    # Newer etcd members refuse clients that do not name the protocol in the TLS handshake.
    tls = tls_of_options(options, where=where, scheme=parts.scheme, protocols=("h2",))
    path = unquote(parts.path).strip("/")
    prefix = f"{path}/" if path else ""
    found = hosts_in(hosts, port=DEFAULT_PORT, where=where)
    return Address(where, found, prefix, namespace, tls, user, password)
