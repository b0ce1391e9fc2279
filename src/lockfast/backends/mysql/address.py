"""Where the server is and how to log in, read from a URL; pure except for reading certificates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lockfast.backends.network.tls import tls_of_options
from lockfast.core.server_options import LOGIN_OPTIONS, TLS_OPTIONS
from lockfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lockfast.backends.network.tls import TlsOptions

DEFAULT_PORT = 3306

OPTIONS = TLS_OPTIONS | LOGIN_OPTIONS | {"connections", "table", "unix_socket"}
"""The options accepted in the URL's query string or as keyword arguments."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server and the login there; `where` names the server, without a password."""

    where: str
    settings: Mapping[str, Any] = field(repr=False)
    """The settings for both drivers, except for TLS."""
    tls: TlsOptions | None = None

    def driver_settings(self) -> dict[str, Any]:
        """Return the settings for a connection; with TLS, OSError if a file cannot be read."""
        return (
            {**self.settings} if self.tls is None else {**self.settings, "ssl": self.tls.context()}
        )


def address_of_url(url: str, *, where: str, options: Mapping[str, Any]) -> Address:
    """Return the address in `mysql://user:password@host:3306/database`; options take precedence."""
    parts = urlsplit(url)
    try:
        port = parts.port or DEFAULT_PORT
    except ValueError:
        raise ConfigurationError(f"{where}: the port is a number below 65536") from None
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise ConfigurationError(
            f"{where} names no database; write {parts.scheme}://user:password@host/database, "
            "and percent-encode what is special in it"
        )
    user = options.get("username", unquote(parts.username or ""))
    if not user:
        raise ConfigurationError(
            f"{where} names no user; write {parts.scheme}://user:password@host/database"
        )
    settings: dict[str, Any] = {
        "host": parts.hostname or "127.0.0.1",
        "port": port,
        "database": database,
        "user": user,
        "password": options.get("password", unquote(parts.password or "")),
    }
    if "unix_socket" in options:
        settings["unix_socket"] = str(options["unix_socket"])
    return Address(where, settings, tls_of_options(options, where=where))
