"""Asks a server about itself; what the answers mean is decided in `wire.condition`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import ConfigurationError
from holdfast.wire import permissions, refusals, verbs
from holdfast.wire.condition import Facts, findings
from holdfast.wire.resp import Refusal, Reply, packed

if TYPE_CHECKING:
    from holdfast.model import Finding

SETTINGS = (b"appendfsync", b"save", b"min-replicas-to-write", b"min-replicas-max-lag")


class Node(Protocol):
    """One server that can be asked."""

    where: str

    async def ask(self, request: bytes, *, deadline: float) -> Reply:
        """Return its reply, which may be a Refusal."""


async def diagnosed(node: Node, *, namespace: str, deadline: float) -> list[Finding]:
    """Return what one server can promise; what may not be read is a note, and no error."""
    allowed = await _allowed(node, namespace, deadline)
    info = await _permitted(node, packed(b"INFO"), deadline)
    settings = await _permitted(node, packed(b"CONFIG", b"GET", *SETTINGS), deadline)
    facts = Facts(
        where=node.where,
        namespace=namespace,
        info=None if info is None else _lines(info),
        settings=None if settings is None else _texts(settings),
        ahead=await _ahead(node, deadline),
        allowed=allowed,
    )
    return findings(facts)


async def _allowed(node: Node, namespace: str, deadline: float) -> dict[str, bool] | str:
    """Return what the user may run, or why nobody can say it: scripts may not be run."""
    request, asked = permissions.question(namespace)
    reply = await node.ask(request, deadline=deadline)
    if isinstance(reply, Refusal) and reply.code == "NOSCRIPT":
        reply = await node.ask(verbs.load("permissions"), deadline=deadline)
        if not isinstance(reply, Refusal):
            reply = await node.ask(request, deadline=deadline)
    if not isinstance(reply, Refusal):
        return dict(zip(asked, map(bool, reply), strict=True))
    error = refusals.refused(reply, where=node.where)
    if isinstance(error, ConfigurationError):
        return str(error)
    raise error


async def _permitted(node: Node, request: bytes, deadline: float) -> Reply | None:
    """Return the reply, or None where it is refused: managed services hide their settings."""
    reply = await node.ask(request, deadline=deadline)
    return None if isinstance(reply, Refusal) else reply


async def _ahead(node: Node, deadline: float) -> float | None:
    """Return by how much the server's clock is outside of the time that asking it took."""
    before = time.time()
    reply = await _permitted(node, packed(b"TIME"), deadline)
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
