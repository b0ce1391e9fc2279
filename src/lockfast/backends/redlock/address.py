"""Addresses of the nodes, and the Redlock options."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.network.target import Target
from lockfast.backends.network.tls import needs_tls
from lockfast.backends.redis.address import (
    DEFAULT_PORT,
    Address,
    address_of_client,
    checked_options,
    database_in,
    server_of,
)
from lockfast.core.descriptor import hosts_in, settings_in, split
from lockfast.core.quorum import majority, node_timeout
from lockfast.core.server_options import TLS_OPTIONS
from lockfast.errors import ConfigurationError
from lockfast.options import checked_switch

if TYPE_CHECKING:
    from lockfast.core.descriptor import Endpoint
    from lockfast.model import Claim


# Addresses, from a URL with all nodes, or from one client per node. No I/O.


def addresses_of_url(
    url: str, *, where: str, nodes: object, options: Mapping[str, Any]
) -> list[Address]:
    """Return an address for each host; a node's own options in `nodes` override shared options."""
    scheme = split(url).scheme
    settings, hosts = settings_in(url, options)
    shared = database_in(url, where=where) | settings
    is_secure = scheme == "redlocks"
    if is_secure and shared.get("tls") is False:  # only a node's own option turns its TLS off
        raise ConfigurationError(
            f"{where}: tls=false contradicts redlocks://; write redlock://, or leave tls out"
        )
    shared.setdefault("tls", is_secure)
    found = hosts_in(hosts, port=DEFAULT_PORT, where=where)
    if len(set(found)) < len(found):
        raise ConfigurationError(f"{where} names a node twice")
    own = _of_each(nodes, number=len(found), where=where)
    about_tls = TLS_OPTIONS & shared.keys() - {"tls"}
    if about_tls and not any({**shared, **one}["tls"] for one in own):
        raise needs_tls(about_tls, where=where, scheme=scheme)
    return [_of_node(*one, shared) for one in zip(found, own, strict=True)]


def _of_node(endpoint: Endpoint, own: Mapping[str, Any], shared: Mapping[str, Any]) -> Address:
    settings = {**shared, **own}
    if not settings["tls"]:
        # The shared TLS options are for the other nodes.
        settings = {key: settings[key] for key in settings if key not in TLS_OPTIONS or key in own}
        settings["tls"] = False
    scheme = "redlocks" if settings["tls"] else "redlock"
    target = Target(f"{scheme}://{endpoint}", endpoint)
    return Address("single", server_of(target, settings, scheme=scheme))


def _of_each(nodes: object, *, number: int, where: str) -> list[dict[str, Any]]:
    """Return the options of each node."""
    if nodes is None:
        return [{}] * number
    is_list = isinstance(nodes, Sequence) and not isinstance(nodes, str)
    if not is_list or not all(isinstance(one, Mapping) for one in nodes):  # type: ignore[attr-defined]
        raise ConfigurationError(
            f"{where}: nodes is a list of options for each node, in the URL's order"
        )
    found = [checked_options(one, what="a node", where=where) for one in nodes]  # type: ignore[attr-defined]
    if len(found) != number:
        raise ConfigurationError(f"{where}: nodes has {len(found)} of them, and the URL {number}")
    return found


def addresses_of_clients(clients: Sequence[object]) -> list[Address]:
    """Return the address that each client connects to, from its settings."""
    found = [address_of_client(one) for one in clients]
    for one in found:
        if one.topology != "single":
            raise ConfigurationError(
                f"{one.where} is a {one.topology}, and each node has to be a server of its own"
            )
    return found


# The options of a Redlock client, and the values that they accept.

DEFAULT_MAX_TTL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RedlockOptions:
    """Options that apply to all requests of a client."""

    max_ttl: float = DEFAULT_MAX_TTL_SECONDS
    node_timeout: float | None = None
    min_validity: float = 0.0
    durable: bool = False

    def timeout_for(self, ttl: float) -> float:
        """Return the timeout for one node."""
        return node_timeout(ttl) if self.node_timeout is None else self.node_timeout

    def check(self, claim: Claim) -> None:
        """Refuse a claim that could outlast max_ttl, or whose ttl is too short for min_validity."""
        for option, seconds in (("ttl", claim.ttl), ("min_hold", claim.min_hold)):
            if seconds > self.max_ttl:
                raise ConfigurationError(
                    f"{option}={seconds:g}: at most max_ttl={self.max_ttl:g} s is accepted here, "
                    "since a node that was restarted counts again after that",
                    name=claim.name,
                )
        if self.min_validity >= claim.ttl:
            raise ConfigurationError(
                f"min_validity={self.min_validity:g} is no less than ttl={claim.ttl:g}: no grant "
                "could ever leave so much time",
                name=claim.name,
            )


OWN_OPTIONS = frozenset(RedlockOptions.__dataclass_fields__)


def own_options(given: Mapping[str, object]) -> tuple[RedlockOptions, dict[str, object]]:
    """Return the Redlock options, and separately the options for the connections."""
    own = {name: value for name, value in given.items() if name in OWN_OPTIONS}
    return _checked(**own), {name: given[name] for name in given if name not in OWN_OPTIONS}


def _checked(
    *,
    max_ttl: object = DEFAULT_MAX_TTL_SECONDS,
    node_timeout: object = None,
    min_validity: object = 0.0,
    durable: object = False,
) -> RedlockOptions:
    """Return the options, given as values or as text from a URL; raise if a value is invalid."""
    return RedlockOptions(
        _seconds("max_ttl", max_ttl, least=0.05),
        None if node_timeout is None else _seconds("node_timeout", node_timeout, least=0.001),
        _seconds("min_validity", min_validity, least=0.0),
        checked_switch("durable", durable),
    )


def _seconds(option: str, value: object, *, least: float) -> float:
    try:
        found = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        found = math.nan
    if not least <= found <= 7 * 24 * 3600:
        raise ConfigurationError(f"{option}={value!r}: {least:g} s to a week is accepted")
    return found


def warn_of_number(nodes: int) -> None:
    """Warn about a number of nodes that is even or too small."""
    if nodes >= 3 and nodes % 2:  # noqa: PLR2004 - see the sentence
        return
    may_fail = nodes - majority(nodes)
    better = max(3, nodes + 1 if nodes % 2 == 0 else nodes)
    warnings.warn(
        f"redlock:// with {nodes} node(s): {may_fail} of them may fail, and "
        f"{better - majority(better)} of {better} could; give an odd number of at least 3",
        UserWarning,
        stacklevel=4,
    )
