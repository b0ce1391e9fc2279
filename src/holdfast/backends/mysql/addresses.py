"""Where the server is and how it is entered, read from a URL; pure but for certificates."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from holdfast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

PORT = 3306

OPTIONS = frozenset(
    {
        "connections",
        "password",
        "ssl",
        "ssl_ca",
        "ssl_cert",
        "ssl_key",
        "table",
        "unix_socket",
        "user",
    }
)
"""What may stand in the URL after a question mark, or beside it."""

_WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class Address:
    """What both drivers are told; `where` names it, without a password."""

    where: str
    settings: Mapping[str, Any] = field(repr=False)


def address_of_url(url: str, *, where: str, options: Mapping[str, object]) -> Address:
    """Return what `mysql://user:password@host:3306/database` names; options win over it."""
    parts = urlsplit(url)
    try:
        port = parts.port or PORT
    except ValueError:
        raise ConfigurationError(f"{where}: the port is a number below 65536") from None
    database = unquote(parts.path.removeprefix("/"))
    if not database or "/" in database:
        raise ConfigurationError(
            f"{where} names no database; write {parts.scheme}://user:password@host/database, "
            "and percent-encode what is special in it"
        )
    login = {"user": unquote(parts.username or ""), "password": unquote(parts.password or "")}
    given = {key: str(value) for key, value in options.items() if key in (*login, "unix_socket")}
    socket = given.pop("unix_socket", None)
    settings: dict[str, Any] = {
        "host": parts.hostname or "127.0.0.1",
        "port": port,
        "database": database,
        **login,
        **given,
    }
    if not settings["user"]:
        raise ConfigurationError(
            f"{where} names no user; write {parts.scheme}://user:password@host/database"
        )
    if socket is not None:
        settings["unix_socket"] = socket
    if (context := _tls(options, where=where)) is not None:
        settings["ssl"] = context
    return Address(where, settings)


def _tls(options: Mapping[str, object], *, where: str) -> ssl.SSLContext | None:
    """Return what checks the server's certificate, None if no option asks for TLS."""
    files = {key: str(options[key]) for key in ("ssl_ca", "ssl_cert", "ssl_key") if key in options}
    wanted = _WORDS.get(str(options.get("ssl", bool(files))).lower())
    if wanted is None:
        raise ConfigurationError(f"{where}: ssl={options['ssl']!r}: true or false is accepted")
    if not wanted:
        return None
    try:
        context = ssl.create_default_context(cafile=files.get("ssl_ca"))
        if "ssl_cert" in files:
            context.load_cert_chain(files["ssl_cert"], files.get("ssl_key"))
    except OSError as error:
        raise ConfigurationError(
            f"{where}: a certificate cannot be read ({error}); see ssl_ca, ssl_cert, ssl_key"
        ) from error
    return context
