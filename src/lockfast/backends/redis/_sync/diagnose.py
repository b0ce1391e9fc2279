# Generated from src/lockfast/backends/redis/_async/diagnose.py by tools/generate_sync.py.
# Do not edit: change the source and run `make generate`.
"""Asks a server about itself; `diagnostics` decides what the replies mean."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockfast.backends.redis import acl, errors, requests
from lockfast.backends.redis._sync.cluster import ClusterTransport
from lockfast.backends.redis._sync.sentinel import SentinelTransport
from lockfast.backends.redis.diagnostics import (
    ServerFacts,
    findings,
    merged,
    sentinel_findings,
    slot_findings,
)
from lockfast.backends.redis.resp import ErrorReply, Reply, packed
from lockfast.errors import BackendUnavailable, ConfigurationError, OutcomeUnknown
from lockfast.model import Finding

if TYPE_CHECKING:
    from lockfast.backends.redis._sync.topology import AnyTransport
    from lockfast.backends.redis.connection_threads import RedisTransport
    from lockfast.backends.redis.durability import Durability
    from lockfast.runtime.clock import Clock

ASKED_SETTINGS = (
    b"appendfsync",
    b"save",
    b"min-replicas-to-write",
    b"min-replicas-max-lag",
    b"cluster-require-full-coverage",
    b"cluster-node-timeout",
)


@dataclass(frozen=True, slots=True)
class ServerQuestion:
    """What to ask each server, and how long a reply may take."""

    namespace: str
    durability: Durability | None
    patience: float
    clock: Clock
    needed: tuple[str, ...] | None = None
    """The commands that a user needs; None means the commands for a single Redis."""

    def deadline(self) -> float:
        """Return the deadline for a request that is sent now."""
        return self.clock.now() + self.patience


def diagnosed(transport: AnyTransport, question: ServerQuestion) -> list[Finding]:
    """Return the findings about one server, a master with its Sentinels, or a cluster."""
    if isinstance(transport, ClusterTransport):
        coverage = transport.coverage(deadline=question.deadline())
        nodes = {one: transport.node(one) for one in coverage.slots.masters}
        of_nodes = {str(one): _of_node(node, question) for one, node in nodes.items()}
        return [*merged(of_nodes), *slot_findings(coverage)]
    found = findings(facts_of(transport, question))
    if isinstance(transport, SentinelTransport):
        views = transport.views(deadline=question.deadline())
        found += sentinel_findings(views, transport.service)
    return found


def _of_node(node: RedisTransport, question: ServerQuestion) -> list[Finding]:
    try:
        return findings(replace(facts_of(node, question), where="", is_node=True))
    except (BackendUnavailable, OutcomeUnknown) as error:
        # Report the failure as a finding, because the operator looks for it, and go on to the other
        # nodes.
        return [Finding.error("server", str(error), "start the node, or replace it")]


def facts_of(node: RedisTransport, question: ServerQuestion) -> ServerFacts:
    """Return the facts about a server; a fact that the user may not read is None, not an error."""
    deadline = question.deadline()
    allowed = _allowed(node, question, deadline)
    info = _permitted(node, packed(b"INFO"), deadline)
    settings = _permitted(node, packed(b"CONFIG", b"GET", *ASKED_SETTINGS), deadline)
    return ServerFacts(
        where=node.where,
        namespace=question.namespace,
        info=None if info is None else _lines(info),
        settings=None if settings is None else _texts(settings),
        ahead=_ahead(node, deadline),
        allowed=allowed,
        durability=question.durability,
        needed=question.needed,
    )


def _allowed(
    node: RedisTransport, question: ServerQuestion, deadline: float
) -> dict[str, bool] | str:
    """Return which commands the user may run, or a sentence that says why this is unknown.

    A user that may not run scripts cannot ask for its permissions.
    """
    needed = question.needed or acl.commands()
    asked = [*needed, *acl.CLUSTER, *acl.TOO_WIDE]
    besides = acl.CONFIRMING[question.durability]
    reply = _asked(node, acl.question(question.namespace, asked), deadline)
    if isinstance(reply, ErrorReply):
        error = errors.refused(reply, where=node.where)
        if isinstance(error, ConfigurationError):
            return str(error)
        raise error
    found = dict(zip(asked, map(bool, reply), strict=True))
    if besides:
        # Ask separately, because a server that does not know such a command refuses the whole
        # request.
        reply = _asked(node, acl.question(question.namespace, besides), deadline)
        if not isinstance(reply, ErrorReply):
            found.update(zip(besides, map(bool, reply), strict=True))
    return found


def _asked(node: RedisTransport, request: bytes, deadline: float) -> Reply:
    reply = node.ask(request, deadline=deadline)
    if isinstance(reply, ErrorReply) and reply.code == "NOSCRIPT":
        reply = node.ask(requests.load("permissions"), deadline=deadline)
        if not isinstance(reply, ErrorReply):
            reply = node.ask(request, deadline=deadline)
    return reply


def _permitted(node: RedisTransport, request: bytes, deadline: float) -> Reply | None:
    """Return the reply; None if the server refuses, as managed services hide their settings."""
    reply = node.ask(request, deadline=deadline)
    return None if isinstance(reply, ErrorReply) else reply


def _ahead(node: RedisTransport, deadline: float) -> float | None:
    """Return by how many seconds, at least, the server's clock is ahead (negative: behind)."""
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
