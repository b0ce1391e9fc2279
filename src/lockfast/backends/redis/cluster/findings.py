"""What the nodes of a cluster say about the promises that locks on it can keep; pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.backends.redis.cluster.coverage import UNNAMED, spans
from lockfast.backends.redis.cluster.maps import NAME_THEM
from lockfast.backends.redis.routing import SLOTS
from lockfast.model import Finding
from lockfast.options import DEFAULT_TTL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lockfast.backends.redis.cluster.coverage import Coverage


def node_findings(settings: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yield what the settings of one node mean for the whole."""
    known = settings or {}
    if known.get("cluster-require-full-coverage") == "yes":
        yield Finding(
            "warning",
            "coverage",
            "cluster-require-full-coverage is yes: while nobody serves the slots of one dead node, "
            "all nodes refuse everything, and leases on healthy ones are lost when their ttl is "
            "over",
            "CONFIG SET cluster-require-full-coverage no, on every node",
        )
    elif "cluster-require-full-coverage" in known:
        yield Finding("ok", "coverage", "a dead node costs the names of its own slots alone")
    if "cluster-node-timeout" not in known:
        return
    timeout = int(known["cluster-node-timeout"]) / 1000
    # It is suspected after the timeout, found dead by the others within another, and the
    # replicas then elect one of them.
    away = 2 * timeout + 1
    sentence = (
        f"cluster-node-timeout is {timeout:g} s: the names of a node that dies are served again "
        f"after up to {away:g} s, and leases with a shorter ttl than that are lost"
    )
    if away >= DEFAULT_TTL:
        remedy = f"a ttl well above {away:g} s (the default is {DEFAULT_TTL:g}), or a lower timeout"
        yield Finding("warning", "failover", sentence, remedy)
    else:
        yield Finding("ok", "failover", sentence)


def slot_findings(found: Coverage) -> Iterator[Finding]:
    """Yield which slots cannot be asked: each is an outage for the names in it."""
    if found.unserved:
        yield Finding(
            "error",
            "slots",
            f"no node serves {spans(found.unserved)}: names there cannot be locked, and with "
            "cluster-require-full-coverage yes no name can",
            "redis-cli --cluster fix HOST:PORT, or CLUSTER ADDSLOTSRANGE on the node that should "
            "serve them",
        )
    if found.unnamed:
        yield Finding(
            "error",
            "slots",
            f"{spans(found.unnamed)}: {UNNAMED}; names there cannot be locked",
            NAME_THEM,
        )
    if not found.unserved and not found.unnamed:
        yield Finding("ok", "slots", f"all {SLOTS} slots have a node")


def merged(found: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """Return the findings of all nodes, by subject; what several have in common is said once."""
    whose: dict[Finding, list[str]] = {}
    for node, findings in found.items():
        for one in findings:
            whose.setdefault(one, []).append(node)
    subjects = list(dict.fromkeys(one.subject for one in whose))
    said = [
        replace(one, message=f"{_together(nodes, of=len(found))}: {one.message}")
        for one, nodes in whose.items()
    ]
    return sorted(said, key=lambda one: subjects.index(one.subject))


def _together(nodes: list[str], *, of: int) -> str:
    return f"all {of} masters" if len(nodes) == of > 1 else ", ".join(nodes)
