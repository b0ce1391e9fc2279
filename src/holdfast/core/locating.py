"""A URL that names several hosts, taken apart."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def split(url: str) -> SplitResult:
    """Return the parts of a URL whose hosts may be several; ValueError if it has no such form.

    Newer Pythons take all that stands there for one host, in which nothing comes before a
    bracket: `h1,[::1]:5` would be refused. So each host is looked at by itself.
    """
    scheme, separator, rest = url.partition("://")
    end = min((rest.index(one) for one in "/?#" if one in rest), default=len(rest))
    place, others = rest[:end], rest[end:]
    if not separator or "," not in place or "[" not in place:
        return urlsplit(url)
    login, at, hosts = place.rpartition("@")
    for one in hosts.split(","):
        urlsplit(f"{scheme}://{login}{at}{one}")
    return urlsplit(f"{scheme}://{others}")._replace(netloc=place)
