"""The server's address and login, read from a URL; no I/O except for certificates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lockfast.backends.network.target import Target
from lockfast.backends.network.tls import tls_of_options
from lockfast.core.descriptor import hosts_in, settings_in, split
from lockfast.core.server_options import LOGIN_OPTIONS, TLS_OPTIONS
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_PORT = 11211

OPTIONS = TLS_OPTIONS | LOGIN_OPTIONS
"""Options accepted in the URL's query string, or as keyword arguments."""


@dataclass(frozen=True, slots=True)
class Address:
    """One server, and the login there."""

    target: Target
    login: tuple[bytes, bytes] | None = field(repr=False)

    @property
    def where(self) -> str:
        """The server's name in messages, without a password."""
        return self.target.where


def address_of_url(url: str, *, where: str, options: Mapping[str, Any]) -> Address:
    """Return the address in `memcached://user:password@host:11211`; options override it."""
    settings, hosts = settings_in(url, options)
    if "," in hosts:
        raise ConfigurationError(
            f"{where} names several servers, and a lock lives on one: a second that does not know "
            "of it would grant it again. Write memcached://host:11211"
        )
    if not hosts or split(url).path.strip("/"):
        raise ConfigurationError(f"{where}: write memcached://host:11211, and no path behind it")
    [endpoint] = hosts_in(hosts, port=DEFAULT_PORT, where=where)
    target = Target(where, endpoint, tls=tls_of_options(options, where=where))
    user, password = settings.get("username", ""), settings.get("password", "")
    return Address(target, _login(user, password, where=where))


def _login(user: str, password: str, *, where: str) -> tuple[bytes, bytes] | None:
    if not user and not password:
        return None
    if not user or not password:
        raise ConfigurationError(
            f"{where}: memcached knows users by name and password; "
            "write memcached://user:password@host"
        )
    if any(one.isspace() or not one.isprintable() for one in user + password):
        # The server splits user and password at the first space, and ends the line at a line
        # break.
        raise ConfigurationError(
            f"{where}: neither the user nor the password may hold a space or a line break"
        )
    return user.encode(), password.encode()
