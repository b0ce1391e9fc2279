"""Where a cluster is, how it is entered, and where our keys are in it; pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from lockfast.core.locating import hosts_in, split
from lockfast.errors import ConfigurationError
from lockfast.options import checked_switch

if TYPE_CHECKING:
    from collections.abc import Mapping

PORT = 2379

TLS_OPTIONS = frozenset(
    {"ssl_ca_certs", "ssl_certfile", "ssl_check_hostname", "ssl_keyfile", "ssl_password"}
)
OPTIONS = TLS_OPTIONS | {"password", "username"}
"""What may stand beside the URL, called as Redis's are."""


class Endpoint(NamedTuple):
    """A member, as a client reaches it."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Address:
    """A cluster, and the place of our keys in it; `where` names it, without a password."""

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
        """What all keys of this namespace begin with."""
        return f"{self.prefix}{self.namespace}/".encode()


class Preference:
    """Which member is asked first, for all sessions of a client: the one that answered last."""

    __slots__ = ("has_answered", "number")

    def __init__(self) -> None:
        self.number: int = 0
        """In the order of the address."""
        self.has_answered: bool = False
        """Whether any member ever has: then what the URL says is right, as far as it goes."""


def of_url(url: str, *, where: str, namespace: str, options: Mapping[str, Any]) -> Address:
    """Return the address in `etcd://user:password@host1,host2:2379/prefix`; `etcds` speaks TLS."""
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
    found = tuple(Endpoint(*one) for one in hosts_in(hosts, port=PORT, where=where))
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
