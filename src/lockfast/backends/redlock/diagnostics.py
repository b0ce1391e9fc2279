"""Findings about Redlock nodes, from what they say about themselves. No I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.backends.redis import acl
from lockfast.backends.redis.diagnostics import ServerFacts, findings
from lockfast.backends.redlock.errors import not_counting
from lockfast.backends.redlock.requests import NODE_VERBS, source
from lockfast.core.quorum import majority
from lockfast.model import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.backends.redlock.address import RedlockOptions
    from lockfast.backends.redlock.node import Node

NEEDED_COMMANDS = tuple(
    sorted(
        {
            *acl.DIRECT,
            "INFO",
            *acl.run_by(source(verb) for verb in (*NODE_VERBS, "enrol")),
        }
    )
)
"""Every command that a user of a node needs."""

ELSEWHERE = frozenset({"persistence", "replicas", "durability"})
"""Subjects that are judged differently for a Redlock node than for a single Redis."""


def node_findings(facts: ServerFacts) -> list[Finding]:
    """Return the findings about one node."""
    found = [one for one in findings(facts) if one.subject not in ELSEWHERE]
    return [*found, *_replicas(facts), *_persistence(facts)]


def _replicas(facts: ServerFacts) -> Iterator[Finding]:
    info = facts.info or {}
    remedy = "independent masters, each on a machine of its own, none with replicas"
    if info.get("role") == "slave":
        yield Finding.error("replicas", "is a replica, and takes no locks", remedy)
    elif info.get("connected_slaves", "0") != "0":
        yield Finding.warning(
            "replicas",
            f"has {info['connected_slaves']} replica(s): one that takes its place under the same "
            "address lacks the latest locks, and counts as if it had them until it is greeted",
            remedy,
        )
    elif info:
        yield Finding.ok("replicas", "a master without replicas")


def _persistence(facts: ServerFacts) -> Iterator[Finding]:
    if facts.info is not None and facts.info.get("aof_enabled") == "1":
        yield Finding.ok("persistence", "keeps its tokens over a restart (appendonly)")
    elif facts.info is not None:
        yield Finding.note(
            "persistence",
            "forgets its locks and tokens when it is restarted; it is taught by the others then",
            "appendonly yes, so that a restart of all nodes at once does not let tokens go back",
        )


def all_findings(
    nodes: Sequence[Node], reached: Sequence[Node], options: RedlockOptions
) -> Iterator[Finding]:
    """Yield the findings about all nodes together."""
    number, needed = len(nodes), majority(len(nodes))
    may_fail = number - needed
    counted = [one for one in reached if one.counts]
    said = f"{len(counted)} of {number} nodes can be counted on, and {needed} are needed"
    if len(counted) < needed:
        yield Finding.error(
            "quorum", f"{said}: nothing can be locked", "see what is said of each node"
        )
    elif len(counted) < number:
        yield Finding.warning("quorum", said, "see what is said of each node")
    else:
        yield Finding.ok("quorum", f"{said}: {may_fail} may fail")
    if number < 3 or number % 2 == 0:  # noqa: PLR2004 - see the remedy
        yield Finding.warning(
            "number",
            f"{number} nodes: {may_fail} of them may fail, no more than of {max(1, number - 1)}",
            "an odd number of at least 3",
        )
    for one in reached:
        if not one.counts:
            yield Finding.warning("quarantine", not_counting(one), "wait; nothing is to be done")
    restarts = "is trusted with what it kept (durable=True)"
    if not options.durable:
        restarts = f"does not count for max_ttl ({options.max_ttl:g} s)"
    yield Finding.ok("restarts", f"a node that is restarted {restarts}")
