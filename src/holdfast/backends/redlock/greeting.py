"""How a node becomes known: which process it is, and whether it may have forgotten something.

A process is known by its `run_id`, which no restart keeps. Whatever it finds on its disk may be
older than what it granted, so each new one begins as one that does not count. These steps send
nothing themselves: they yield requests, and are sent what was replied to them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.backends.redis import refusals
from holdfast.backends.redis.requests import SECOND
from holdfast.backends.redis.resp import Refusal, Reply, packed
from holdfast.backends.redlock.node import Misfit
from holdfast.backends.redlock.requests import Scripts
from holdfast.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from holdfast.backends.redlock.node import Node
    from holdfast.backends.redlock.requests import Questions


@dataclass(frozen=True, slots=True)
class Terms:
    """What every client of the same nodes has to agree on."""

    questions: Questions
    max_ttl: float
    durable: bool


def greet(
    node: Node, others: Sequence[Node], terms: Terms
) -> Generator[list[bytes], list[Reply], None]:
    """Get to know the node on a connection that was just made, or one that forgot its birth."""
    [info] = _accepted((yield [packed(b"INFO", b"server")]), node)
    facts = dict(
        line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line
    )
    run_id = facts.get("run_id", "")
    node.run_id = (
        run_id  # said before it is looked for: of two that are greeted at once, one sees it
    )
    for other in others:
        is_there = other is not node and other.trouble is None
        if is_there and run_id and other.run_id == run_id:
            node.run_id = ""
            raise _misfit(
                node,
                f"{other.where} and {node.where} are one server (run_id {run_id[:8]}…): each node "
                "has to be a server of its own, or a majority of them proves nothing",
            )
    enrolling = terms.questions.enrol(
        run_id,
        os.urandom(8).hex(),
        max_ttl=terms.max_ttl,
        durable=terms.durable,
        nodes=len(others),
    )
    _, known = _accepted((yield enrolling), node)
    birth, counts, max_ttl, origin, number, durable = known
    if number != len(others):
        raise _misfit(
            node,
            f"{node.where} is one of {number} nodes, and this client names {len(others)}: their "
            "majorities need not share a node, so that two could hold the same lock",
        )
    if max_ttl != round(terms.max_ttl * SECOND):
        raise _misfit(
            node,
            f"{node.where} was set up with max_ttl={max_ttl / SECOND:g}, and this client says "
            f"max_ttl={terms.max_ttl:g}: all clients of the same nodes need the same",
        )
    if durable != int(terms.durable):
        raise _misfit(
            node,
            f"{node.where} was set up with durable={bool(durable)}, and this client says "
            f"durable={terms.durable}: all clients of the same nodes need the same, or one would "
            "let a restarted node count that the others do not trust",
        )
    scripts = node.scripts
    if scripts is None or scripts.birth != birth.decode():
        scripts = Scripts(birth.decode())
        _accepted((yield scripts.loading), node)
    node.origin, node.scripts = origin.decode(), scripts
    node.counts, node.uptime = bool(counts), float(facts.get("uptime_in_seconds", 0))
    node.is_slow, node.trouble = False, None


def _misfit(node: Node, why: str) -> Misfit:
    node.scripts = None  # it is not asked either on connections that were made before
    return Misfit(why)


def _accepted(replies: Sequence[Reply], node: Node) -> Sequence[Reply]:
    for one in replies:
        if isinstance(one, Refusal):
            raise refusals.refused(one, where=node.where)
        if isinstance(one, LockError):
            raise one
    return replies
