"""Whom a challenge may strike, and by which faults: what was asked for, in sentences."""

from __future__ import annotations

import difflib
import ipaddress
import socket
from typing import TYPE_CHECKING

from lockfast import ConfigurationError
from lockfast.core.locating import hosts_in, split

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lockfast.challenge.fault import Fault

NOT_ALLOWED = (
    "it would strike servers that others may use, which are not on this machine: "
    "add --yes-break-it if nobody needs them"
)


def allowed(
    there: Mapping[str, Fault], asked: Sequence[str], *, may_break: bool
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the kinds to run, and of those that must not be run why.

    What was asked for by name and must not be run is an error, and so is a run in which nothing of
    it could be made; of all that there is, such a kind is left out, and that is said.
    """
    for kind in asked:
        if kind not in there:
            raise ConfigurationError(f"there is no fault {kind!r} here; {_hint(kind, there)}")
        if there[kind].is_destructive and not may_break:
            raise ConfigurationError(f"the fault {kind!r} was not made: {NOT_ALLOWED}")
    if asked and all(there[kind].lacks for kind in asked):
        reasons = "; ".join(f"{kind}: {there[kind].lacks}" for kind in asked)
        raise ConfigurationError(f"no fault that was asked for can be made here: {reasons}")
    if asked:
        return tuple(dict.fromkeys(asked)), {}
    barred = {
        kind: NOT_ALLOWED for kind, fault in there.items() if fault.is_destructive and not may_break
    }
    return tuple(kind for kind in there if kind not in barred), barred


def _hint(kind: str, there: Mapping[str, Fault]) -> str:
    close = difflib.get_close_matches(kind, there, n=3)
    if close:
        return "did you mean " + ", ".join(map(repr, close)) + "?"
    return "there are: " + ", ".join(sorted(there))


def is_here(url: str) -> bool:
    """Whether all servers that the URL names are on this machine."""
    places = split(url).netloc.rpartition("@")[2]
    if not places:
        return True  # a file, or a socket of this machine
    return all(_is_loopback(host) for host, _ in hosts_in(places, port=1, where="the URL"))


def _is_loopback(host: str) -> bool:
    """Whether whatever the name stands for is this machine; one that nobody knows is not."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(address[0]).is_loopback for *_, address in found)
