"""What this deployment can guarantee, according to the server's own statistics; no I/O."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lockfast.backends.memcached.address import Address
    from lockfast.backends.memcached.meta import TextLines

NEARLY_FULL_FRACTION = 0.9
"""A server that uses more than this fraction of its memory is about to evict items."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the server reports about itself: `stats`, `stats settings`, `stats items`."""

    address: Address
    longest_ttl: float
    """The longest ttl of this client's leases."""
    general: Mapping[str, str]
    settings: Mapping[str, str]
    items: Mapping[str, str]


def statistics(answer: TextLines) -> dict[str, str]:
    """Return the names and values of a statistic."""
    parts = (one.decode(errors="replace").split(" ", 2) for one in answer.lines)
    return {part[1]: part[2] for part in parts if len(part) == 3}  # noqa: PLR2004 - STAT a b


def findings(facts: Facts) -> list[Finding]:
    """Return all findings, in the order of the checks and not by severity."""
    return [
        Finding.note("version", f"memcached {facts.general.get('version', 'of no version')}"),
        Finding.note(
            "promise",
            "a restart, flush_all or an eviction frees every lock while its holder believes in it "
            "until the next renewal; there are no fencing tokens",
            "use it where a second holder costs work and not data; else another backend",
        ),
        Finding.note(
            "ttl",
            "the server counts whole seconds: what a crashed holder had is free up to two seconds "
            "after its ttl",
        ),
        *_evictions(facts),
        *_memory(facts),
        *_uptime(facts),
        *_authentication(facts),
    ]


def _evictions(facts: Facts) -> Iterator[Finding]:
    evicted = {
        name.split(":")[1]: int(number)
        for name, number in facts.items.items()
        if name.endswith(":evicted") and int(number)
    }
    if facts.settings.get("evictions") == "off":
        yield Finding.warning(
            "evictions",
            "this server evicts nothing (-M): once it is full it refuses what changes an item, and "
            "removes that item: a lock that somebody merely asks for is free then",
            "let it evict (no -M), with more memory than it needs (-m), or give locks a server of "
            "their own",
        )
    elif evicted:
        classes = ", ".join(f"{number} in class {one}" for one, number in evicted.items())
        yield Finding.warning(
            "evictions",
            f"items were evicted since the server started ({classes}); a lock among them is free "
            "for anybody, and its holder learns of it at the next renewal",
            "give it more memory (-m), or a server of its own for locks",
        )
    else:
        yield Finding.ok("evictions", "nothing was evicted since the server started")


def _memory(facts: Facts) -> Iterator[Finding]:
    limit = int(facts.general.get("limit_maxbytes") or 0)
    used = int(facts.general.get("bytes") or 0)
    if limit and used >= limit * NEARLY_FULL_FRACTION:
        yield Finding.warning(
            "memory",
            f"{used / limit:.0%} of its {limit // 2**20} MB are used: it is about to evict, or to "
            "refuse",
            "give it more memory (-m), or a server of its own for locks",
        )
    elif limit:
        yield Finding.ok("memory", f"{used / limit:.0%} of {limit // 2**20} MB are used")


def _uptime(facts: Facts) -> Iterator[Finding]:
    uptime = int(facts.general.get("uptime") or 0)
    if uptime < facts.longest_ttl:
        yield Finding.warning(
            "uptime",
            f"the server was started {uptime} s ago, and forgot every lock then: who held one for "
            "longer may believe in it still",
            "wait as long as the longest ttl before work that must not be done twice",
        )
    else:
        yield Finding.ok("uptime", f"the server runs for {uptime} s")


def _authentication(facts: Facts) -> Iterator[Finding]:
    # The setting is "no", or the name of the auth file.
    requires_login = facts.settings.get("auth_enabled_ascii", "no") != "no"
    listens = facts.settings.get("inter", "")
    if requires_login:
        yield Finding.ok("authentication", "a user and a password are asked for")
    elif facts.address.login is not None:
        yield Finding.warning(
            "authentication",
            "we have a user and a password, and this server asks for none: anybody who reaches it "
            "may delete every lock",
            "give it an auth file (-Y), or correct the address",
        )
    elif _is_public(listens):
        yield Finding.warning(
            "authentication",
            f"anybody who reaches {listens or 'any address of this server'} may delete every lock: "
            "no password is asked for",
            "let it listen on an address of its own machine or network (-l), or give it an auth "
            "file (-Y) and TLS (-Z)",
        )
    else:
        yield Finding.note(
            "authentication", f"no password is asked for; it listens on {listens} alone"
        )


def _is_public(listens: str) -> bool:
    """Whether any address in `-l` is public; an empty `-l` means all addresses."""
    return any(
        not _is_private(one.strip()) for one in listens.replace("NULL", "").split(",") or [""]
    )


def _is_private(place: str) -> bool:
    place = place.removeprefix("notls:")
    host = place.partition("]")[0].lstrip("[") if "[" in place else place.partition(":")[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"  # a host name, or all addresses
    return address.is_loopback or (address.is_private and not address.is_unspecified)
