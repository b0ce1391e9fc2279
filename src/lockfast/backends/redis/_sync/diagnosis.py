# Generated from src/lockfast/backends/redis/_async/diagnosis.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Asks a server about itself; what the answers mean is decided in `findings`."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockfast.backends.redis import permissions, refusals, requests
from lockfast.backends.redis._sync.cluster import Cluster
from lockfast.backends.redis._sync.sentinel import SentinelWire
from lockfast.backends.redis.cluster.findings import merged, slot_findings
from lockfast.backends.redis.findings import Facts, findings
from lockfast.backends.redis.resp import Refusal, Reply, packed
from lockfast.backends.redis.sentinel.findings import sentinel_findings
from lockfast.errors import BackendUnavailable, ConfigurationError, OutcomeUnknown
from lockfast.model import Finding

if TYPE_CHECKING:
    from lockfast.backends.redis._sync.connecting import AnyWire
    from lockfast.backends.redis.connection.threads import Wire
    from lockfast.backends.redis.durability import Durability
    from lockfast.runtime.clock import Clock

SETTINGS = (
    b"appendfsync",
    b"save",
    b"min-replicas-to-write",
    b"min-replicas-max-lag",
    b"cluster-require-full-coverage",
    b"cluster-node-timeout",
)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of each server, and how long an answer may take."""

    namespace: str
    durability: Durability | None
    patience: float
    clock: Clock
    needed: tuple[str, ...] | None = None
    """The commands that a user needs; None where they are those of a single Redis."""

    def deadline(self) -> float:
        """Return until when a server that is asked now may answer."""
        return self.clock.now() + self.patience


def diagnosed(wire: AnyWire, question: Question) -> list[Finding]:
    """Return what one server can promise, or all that belong together."""
    if isinstance(wire, Cluster):
        coverage = wire.coverage(deadline=question.deadline())
        nodes = {one: wire.node(one) for one in coverage.slots.masters}
        of_nodes = {str(one): _of_node(node, question) for one, node in nodes.items()}
        return [*merged(of_nodes), *slot_findings(coverage)]
    found = findings(facts_of(wire, question))
    if isinstance(wire, SentinelWire):
        views = wire.views(deadline=question.deadline())
        found += sentinel_findings(views, wire.service, where=wire.where)
    return found


def _of_node(node: Wire, question: Question) -> list[Finding]:
    try:
        return findings(replace(facts_of(node, question), where="", is_node=True))
    except (BackendUnavailable, OutcomeUnknown) as error:
        # The others can still be asked, and this is what the operator looks for.
        return [Finding("error", "server", str(error), "start the node, or replace it")]


def facts_of(node: Wire, question: Question) -> Facts:
    """Return what a server says; what may not be read is a note, and no error."""
    deadline = question.deadline()
    allowed = _allowed(node, question, deadline)
    info = _permitted(node, packed(b"INFO"), deadline)
    settings = _permitted(node, packed(b"CONFIG", b"GET", *SETTINGS), deadline)
    return Facts(
        where=node.where,
        namespace=question.namespace,
        info=None if info is None else _lines(info),
        settings=None if settings is None else _texts(settings),
        ahead=_ahead(node, deadline),
        allowed=allowed,
        durability=question.durability,
        needed=question.needed,
    )


def _allowed(node: Wire, question: Question, deadline: float) -> dict[str, bool] | str:
    """Return what the user may run, or why nobody can say it: scripts may not be run."""
    needed = question.needed or permissions.commands()
    asked = [*needed, *permissions.CLUSTER, *permissions.TOO_WIDE]
    besides = permissions.CONFIRMING[question.durability]
    reply = _asked(node, permissions.question(question.namespace, asked), deadline)
    if isinstance(reply, Refusal):
        error = refusals.refused(reply, where=node.where)
        if isinstance(error, ConfigurationError):
            return str(error)
        raise error
    found = dict(zip(asked, map(bool, reply), strict=True))
    if besides:
        # By itself: a server that does not know such a command refuses the whole question.
        reply = _asked(node, permissions.question(question.namespace, besides), deadline)
        if not isinstance(reply, Refusal):
            found.update(zip(besides, map(bool, reply), strict=True))
    return found


def _asked(node: Wire, request: bytes, deadline: float) -> Reply:
    reply = node.ask(request, deadline=deadline)
    if isinstance(reply, Refusal) and reply.code == "NOSCRIPT":
        reply = node.ask(requests.load("permissions"), deadline=deadline)
        if not isinstance(reply, Refusal):
            reply = node.ask(request, deadline=deadline)
    return reply


def _permitted(node: Wire, request: bytes, deadline: float) -> Reply | None:
    """Return the reply, or None where it is refused: managed services hide their settings."""
    reply = node.ask(request, deadline=deadline)
    return None if isinstance(reply, Refusal) else reply


def _ahead(node: Wire, deadline: float) -> float | None:
    """Return by how much the server's clock is outside of the time that asking it took."""
    before = time.time()
    reply = _permitted(node, packed(b"TIME"), deadline)
    after = time.time()
    if reply is None:
        return None
    theirs = int(reply[0]) + int(reply[1]) / 1_000_000
    return min(0.0, theirs - before) + max(0.0, theirs - after)


def _texts(settings: dict[bytes, bytes]) -> dict[str, str]:
    return {key.decode(): value.decode() for key, value in settings.items()}


def _lines(info: bytes) -> dict[str, str]:
    lines = info.decode(errors="replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)
