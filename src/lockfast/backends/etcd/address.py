"""The cluster's members, the login, and the prefix of our keys, read from a URL; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lockfast.core.descriptor import Endpoint, hosts_in, split
from lockfast.errors import ConfigurationError
from lockfast.options import checked_switch

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PORT = 2379

TLS_OPTIONS = frozenset(
    {"ssl_ca_certs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile", "ssl_password"}
)
OPTIONS = TLS_OPTIONS | {"password", "username"}
"""The options that may accompany the URL, named like those of Redis."""


@dataclass(frozen=True, slots=True)
class Address:
    """A cluster and the place of our keys in it; `where` names the cluster, without a password."""

    where: str
    endpoints: tuple[Endpoint, ...]
    prefix: str
    namespace: str
    is_secure: bool
    tls: Mapping[str, Any] = field(repr=False)
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
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    user = str(options.get("username", unquote(user)))
    password = str(options.get("password", unquote(password)))
    if bool(user) != bool(password):
        raise ConfigurationError(f"{where}: a login is a user and a password; one is missing")
    is_secure = parts.scheme == "etcds"
    tls = {name: options[name] for name in sorted(TLS_OPTIONS & options.keys())}
    if tls and not is_secure:
        raise ConfigurationError(f"{', '.join(tls)}: only for etcds://, which speaks TLS")
    found = tuple(Endpoint(*one) for one in hosts_in(hosts, port=DEFAULT_PORT, where=where))
    path = unquote(parts.path).strip("/")
    return Address(
        where,
        found,
        f"{path}/" if path else "",
        namespace,
        is_secure,
        _checked(tls),
        user,
        password,
    )


def _checked(tls: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(tls)
    if given.get("ssl_keyfile") and not given.get("ssl_certfile"):
        raise ConfigurationError("ssl_keyfile is the key of a certificate; give ssl_certfile too")
    is_checked = checked_switch("ssl_check_hostname", given.get("ssl_check_hostname", True))
    return given | {"ssl_check_hostname": is_checked}
