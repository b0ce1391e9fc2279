"""A URL that may name several hosts: taken apart, and shown without what is secret."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from lockfast.errors import ConfigurationError

_PLACE: Final = r"(\[[^]]*\]|[^:,]*)(:\d*)?"
"""A host, or one in brackets, and its port."""
_PLACES: Final = re.compile(f"{_PLACE}(,{_PLACE})*").fullmatch


def split(url: str) -> SplitResult:
    """Return the parts of a URL whose hosts may be several; ValueError if it has no such form."""
    parts = _split(url)
    if (mistake := _unencoded(parts)) is not None:
        raise ConfigurationError(f"the URL {masked(url)!r} cannot be read: {mistake}")
    return parts


def _split(url: str) -> SplitResult:
    # Newer Pythons take all that stands there for one host, in which nothing comes before a
    # bracket: `h1,[::1]:5` would be refused. So each host is looked at by itself.
    scheme, separator, rest = url.partition("://")
    end = min((rest.index(one) for one in "/?#" if one in rest), default=len(rest))
    place, others = rest[:end], rest[end:]
    if not separator or "," not in place or "[" not in place:
        return urlsplit(url)
    login, at, hosts = place.rpartition("@")
    for one in hosts.split(","):
        urlsplit(f"{scheme}://{login}{at}{one}")
    return urlsplit(f"{scheme}://{others}")._replace(netloc=place)


def _unencoded(parts: SplitResult) -> str | None:
    """Say which character of a URL is to be written otherwise; None where none is.

    A password with such a character in it moves the parts that a parser sees: a piece of it would
    be taken for a port, a database or an option, and shown as what is wrong.
    """
    if parts.fragment:
        return "a # is written %23"  # no store has a use for what stands behind it
    if parts.netloc and "@" in parts.path:
        return "a / in a user or a password is written %2F, and an @ after the host %40"
    names = [one.partition("=")[0] for one in parts.query.split("&")]
    is_login = "@" in parts.query and "@" not in parts.netloc and not _PLACES(parts.netloc)
    if is_login or any("@" in one for one in names):
        return "a ? in a user or a password is written %3F"
    return None


def hosts_in(text: str, *, port: int, where: str) -> tuple[tuple[str, int], ...]:
    """Return the hosts that are named, separated by commas, each with its port or this one."""
    found = tuple(_host(one, port, where) for one in text.split(",") if one)
    if not found:
        raise ConfigurationError(f"{where} names no host")
    return found


def _host(text: str, port: int, where: str) -> tuple[str, int]:
    # [::1]:6379, ::1 in brackets or a name, with or without a port
    host, bracket, rest = text.partition("]")
    if bracket:
        host, number = host.lstrip("["), rest.lstrip(":")
    else:
        host, _, number = text.partition(":")
    if not host or not (number or "1").isdecimal() or int(number or 1) not in range(1, 65536):
        raise ConfigurationError(f"{where}: {text!r} is not a host or host:port")
    return host, int(number or port)


def masked(url: str) -> str:
    """Return the URL without what may be secret, for errors, logs and reports.

    Read by hand: a password with a slash or a hash in it moves the parts that a parser
    sees, and one of them would be shown. So all before the last @ goes, and all values
    after a question mark.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    _, at, place = rest.rpartition("@")
    place, question, query = place.partition("?")
    names = [one.partition("=")[0] for one in query.split("&") if one]
    hidden = "***@" if at else ""
    return f"{scheme}{separator}{hidden}{place}{question}" + "&".join(f"{one}=***" for one in names)
