"""How a node becomes known: which process it is, and whether it may have forgotten something.

A process is known by its `run_id`, which no restart keeps. Whatever it finds on its disk may be
older than what it granted, so each new one begins as one that does not count. These steps send
nothing themselves: they yield requests, and are sent what was replied to them.

A node that has no terms yet gets those of the client that enrols it, and refuses every client with
others from then on. So a client writes nothing before it asks for a lock: looking enrols no node.
And it gives its terms only where more of the nodes have these terms than others, or none has any.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.redis import refusals
from lockfast.backends.redis.requests import SECOND
from lockfast.backends.redis.resp import Refusal, Reply, packed
from lockfast.backends.redlock.node import Misfit, NotEnrolled
from lockfast.backends.redlock.requests import Scripts
from lockfast.core.quorum import majority
from lockfast.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.requests import Questions


LOOK, RENEW_BIRTH, SET_TERMS = 0, 1, 2
"""What a greeting may write; see enrol.lua."""


@dataclass(slots=True)
class Terms:
    """What every client of the same nodes has to agree on."""

    questions: Questions
    max_ttl: float
    durable: bool
    has_asked_for_a_lock: bool = False

    @property
    def undo(self) -> str:
        """How a node gets rid of terms that were set by mistake."""
        return (
            "correct this client or, if the node was set up by mistake, stop the clients that did "
            f"so and run DEL {self.questions.node_key} there: it counts again after max_ttl"
        )


def may_write(node: Node, nodes: Sequence[Node], terms: Terms) -> int:
    """Return what a greeting of the node may write, by what is known of the others."""
    if not terms.has_asked_for_a_lock:
        return LOOK
    others = [one for one in nodes if one is not node]
    without = sum(one.lacks_terms or isinstance(one.trouble, NotEnrolled) for one in others)
    agreeing = sum(one.scripts is not None and not one.lacks_terms for one in others)
    misfits = sum(isinstance(one.trouble, Misfit) for one in others)
    is_enough = 1 + without + agreeing + misfits >= majority(len(nodes))
    is_accepted = agreeing > misfits or agreeing == misfits == 0
    return SET_TERMS if is_enough and is_accepted else RENEW_BIRTH


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
                of_nodes=0,
            )
    enrolling = terms.questions.enrol(
        run_id,
        os.urandom(8).hex(),
        max_ttl=terms.max_ttl,
        durable=terms.durable,
        nodes=len(others),
        may_write=may_write(node, others, terms),
    )
    _, known = _accepted((yield enrolling), node)
    birth, counts, max_ttl, origin, number, durable, lacks_terms = known
    if number != len(others):
        raise _misfit(
            node,
            f"{node.where} is one of {number} nodes, and this client names {len(others)}: their "
            "majorities need not share a node, so two clients could hold the same lock; "
            f"{terms.undo}",
            of_nodes=number,
        )
    if max_ttl != round(terms.max_ttl * SECOND):
        raise _misfit(
            node,
            f"{node.where} was set up with max_ttl={max_ttl / SECOND:g}, and this client says "
            f"max_ttl={terms.max_ttl:g}: all clients of these nodes need the same; {terms.undo}",
            of_nodes=number,
        )
    if durable != int(terms.durable):
        raise _misfit(
            node,
            f"{node.where} was set up with durable={bool(durable)}, and this client says "
            f"durable={terms.durable}: all clients of these nodes need the same, or one would "
            f"count a restarted node that the others do not trust; {terms.undo}",
            of_nodes=number,
        )
    node.lacks_terms, node.origin, node.is_slow = bool(lacks_terms), origin.decode(), False
    if not birth:
        node.scripts, node.counts = None, False
        node.trouble = NotEnrolled(
            f"{node.where} {'was restarted' if node.origin == 'again' else 'is not in use yet'}: "
            "it counts after max_ttl, once a client asks for a lock"
        )
        return
    scripts = node.scripts
    if scripts is None or scripts.birth != birth.decode():
        scripts = Scripts(birth.decode())
        _accepted((yield scripts.loading), node)
    node.scripts = scripts
    node.counts, node.uptime = bool(counts), float(facts.get("uptime_in_seconds", 0))
    node.trouble = None


def _misfit(node: Node, why: str, *, of_nodes: int) -> Misfit:
    # It is not asked either on connections that were made before.
    node.scripts, node.counts = None, False
    return Misfit(why, of_nodes=of_nodes)


def _accepted(replies: Sequence[Reply], node: Node) -> Sequence[Reply]:
    for one in replies:
        if isinstance(one, Refusal):
            raise refusals.refused(one, where=node.where)
        if isinstance(one, LockError):
            raise one
    return replies
