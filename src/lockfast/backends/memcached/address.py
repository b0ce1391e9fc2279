"""The server's address and login, read from a URL; pure except for certificates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from lockfast.backends.network.tls import tls_context
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

DEFAULT_PORT = 11211

OPTIONS = frozenset({"password", "ssl", "ssl_ca", "ssl_cert", "ssl_key", "user"})
"""Options accepted in the URL's query string, or as keyword arguments."""


@dataclass(frozen=True, slots=True)
class Address:
    """One server; `where` names the server, without a password."""

    where: str
    host: str
    port: int
    login: tuple[bytes, bytes] | None = field(repr=False)
    tls: ssl.SSLContext | None = field(repr=False)


def address_of_url(url: str, *, where: str, options: Mapping[str, object]) -> Address:
    """Return the address in `memcached://user:password@host:11211`; options override it."""
    if "," in url.partition("://")[2].rpartition("@")[2]:
        raise ConfigurationError(
            f"{where} names several servers, and a lock lives on one: a second that does not know "
            "of it would grant it again. Write memcached://host:11211"
        )
    parts = urlsplit(url)
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise ConfigurationError(f"{where}: the port is a number below 65536") from None
    if not parts.hostname or parts.path.strip("/"):
        raise ConfigurationError(f"{where}: write memcached://host:11211, and no path behind it")
    user = str(options.get("user", unquote(parts.username or "")))
    password = str(options.get("password", unquote(parts.password or "")))
    return Address(
        where,
        parts.hostname,
        port,
        _login(user, password, where=where),
        tls_context(options, where=where),
    )


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
