# Generated from src/lockfast/backends/redlock/_async/diagnosis.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Asks every node about itself; what the answers mean is decided in `findings`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lockfast.backends.redis._sync.diagnosis import Question, facts_of
from lockfast.backends.redis.cluster.findings import merged
from lockfast.backends.redlock.findings import NEEDED, all_findings, node_findings
from lockfast.backends.redlock.node import Misfit
from lockfast.errors import LockError
from lockfast.model import Finding
from lockfast.runtime import threads as runtime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockfast.backends.redlock.node import Node
    from lockfast.backends.redlock.nodes.threads import Nodes
    from lockfast.backends.redlock.options import RedlockOptions
    from lockfast.runtime.clock import Clock


def diagnosed(
    nodes: Nodes, options: RedlockOptions, *, namespace: str, patience: float, clock: Clock
) -> list[Finding]:
    """Return what each node can promise, and all of them together."""
    question = Question(namespace, None, patience, clock, needed=NEEDED)
    found = runtime.gather([partial(_of_node, nodes, one, question) for one in nodes.nodes])
    by_node = {one.where: said for one, said in zip(nodes.nodes, found, strict=True)}
    reached = [
        one
        for one, said in zip(nodes.nodes, found, strict=True)
        if said[0].subject not in ("reach", "nodes")
    ]
    return [*all_findings(nodes.nodes, reached, options), *merged(by_node)]


def _of_node(nodes: Nodes, node: Node, question: Question) -> Sequence[Finding]:
    try:
        facts = facts_of(nodes.wires[node.number], question)
    except Misfit as error:
        return [Finding("warning", "nodes", f"is left out: {error}", "as the message says")]
    except LockError as error:
        # The others can still be asked, and this is what the operator looks for.
        return [Finding("error", "reach", str(error), "start the node, or replace it")]
    return node_findings(replace(facts, where=""))
