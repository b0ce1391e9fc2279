"""Where the nodes are: a URL with all of them, or clients that know one each; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from lockfast.backends.redis.addresses import (
    PORT,
    Address,
    address_of_client,
    checked_options,
    database_in,
    endpoints_of,
)
from lockfast.core.locating import split
from lockfast.errors import ConfigurationError


def addresses_of_url(
    url: str, *, where: str, nodes: object, options: Mapping[str, Any]
) -> list[Address]:
    """Return one address for each host; what `nodes` says of one wins over what all share."""
    parts = split(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    login = {"username": unquote(user), "password": unquote(password)}
    shared: dict[str, Any] = {key: value for key, value in login.items() if value}
    shared |= checked_options(options, topology="single")
    shared |= database_in(url, where=where)
    found = endpoints_of(hosts, port=PORT, where=where)
    if len(set(found)) < len(found):
        raise ConfigurationError(f"{where} names a node twice")
    own = _of_each(nodes, number=len(found))
    addresses = []
    for endpoint, besides in zip(found, own, strict=True):
        settings = {**shared, **besides}
        tls = bool(settings.pop("tls", parts.scheme == "redlocks"))
        scheme = "rediss" if tls else "redis"
        place = {"host": endpoint.host, "port": endpoint.port}
        addresses.append(
            Address(f"{scheme}://{endpoint}", "single", {**settings, **place}, tls, (endpoint,))
        )
    return addresses


def _of_each(nodes: object, *, number: int) -> list[dict[str, Any]]:
    """Return what is said of each node by itself."""
    if nodes is None:
        return [{}] * number
    is_list = isinstance(nodes, Sequence) and not isinstance(nodes, str)
    if not is_list or not all(isinstance(one, Mapping) for one in nodes):  # type: ignore[attr-defined]
        raise ConfigurationError("nodes: a list of options for each node, in the URL's order")
    found: list[dict[str, Any]] = [dict(one) for one in nodes]  # type: ignore[attr-defined]
    if len(found) != number:
        raise ConfigurationError(f"nodes: {len(found)} of them, and the URL has {number}")
    for one in found:
        foreign = set(one) - OF_ONE_NODE
        if foreign:
            raise ConfigurationError(
                f"nodes: unknown option {', '.join(sorted(foreign))} of a node; accepted: "
                + ", ".join(sorted(OF_ONE_NODE))
            )
    return found


OF_ONE_NODE = frozenset(
    {
        "credential_provider",
        "db",
        "password",
        "ssl_ca_certs",
        "ssl_ca_path",
        "ssl_certfile",
        "ssl_check_hostname",
        "ssl_keyfile",
        "tls",
        "username",
    }
)
"""What may be said of each node by itself, or of all of them."""


def addresses_of_clients(clients: Sequence[object]) -> list[Address]:
    """Return where each client connects to, by reading its settings."""
    found = [address_of_client(one) for one in clients]
    for one in found:
        if one.topology != "single":
            raise ConfigurationError(
                f"{one.where} is a {one.topology}, and each node has to be a server of its own"
            )
    return found
