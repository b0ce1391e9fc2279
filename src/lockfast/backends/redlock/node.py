"""What a client knows about one node; both flavours record it in this class."""

from __future__ import annotations

import os
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lockfast.backends.redis import errors
from lockfast.backends.redis.requests import SECOND
from lockfast.backends.redis.resp import ErrorReply, Reply, packed
from lockfast.backends.redlock.requests import Scripts
from lockfast.core.quorum import NodeVote, majority
from lockfast.errors import BackendUnavailable, ConfigurationError, LockError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from lockfast.backends.redlock.requests import NodeRequest, NodeRequests

DEFERRED_MAX = 256
"""Maximum number of requests kept for an unreachable node. If a release beyond that is dropped, the
hold on that node ends with its ttl."""


@dataclass(frozen=True, slots=True)
class DeferredRequest:
    """A request still to be sent to a node; it is dropped once it can no longer matter."""

    question: NodeRequest
    until: float


class NodeMismatch(ConfigurationError):
    """The node was set up on other terms, and must not be used together with the other nodes.

    `of_nodes` is the number of nodes in this node's terms; 0 if the node must not be listed at all.
    """

    def __init__(self, why: str, *, of_nodes: int) -> None:
        super().__init__(why)
        self.of_nodes = of_nodes


class NotEnrolled(BackendUnavailable):
    """The node is reachable but has no locks, because no client could enrol it yet."""


class Node:
    """What is known about one node."""

    def __init__(self, number: int, where: str) -> None:
        self.number = number
        self.where = where
        self.run_id = ""
        self.uptime: float = 0.0
        self.origin = ""
        self.counts = False
        self.scripts: Scripts | None = None
        """The scripts of the node's known birth; None while the node needs a handshake."""
        self.is_slow = False
        """Whether a reply is overdue; any byte from the node clears the mark."""
        self.trouble: LockError | None = None
        """Why the node could not be used at the last attempt."""
        self.lacks_terms = False
        """Whether the node lacks some of the terms on which clients have to agree."""
        self.counts_in: float | None = None
        """Seconds until the node counts, according to the last replies."""
        self.asked_at: float = float("-inf")
        """When a request was last sent to the node."""
        self._deferred_requests: deque[DeferredRequest] = deque(maxlen=DEFERRED_MAX)

    @property
    def birth(self) -> str:
        """The node's known birth; empty if the birth is unknown."""
        return "" if self.scripts is None else self.scripts.birth

    def silence(self) -> NodeVote:
        """Return the node's vote while it has not replied."""
        return NodeVote.OVERDUE if self.is_slow else NodeVote.WAITING

    def defer(self, question: NodeRequest, *, now: float, matters_for: float) -> None:
        """Keep a request for later, if an earlier request to the node could still matter."""
        if now - self.asked_at < matters_for:
            self._deferred_requests.append(DeferredRequest(question, now + matters_for))

    def keep(self, deferred: Iterable[DeferredRequest]) -> None:
        """Keep requests that were sent but may not have arrived."""
        self._deferred_requests.extend(deferred)

    def deferred(self, now: float) -> list[DeferredRequest]:
        """Remove and return the requests that the node must still receive."""
        found = []
        # Take one request at a time, because another thread may add or take requests meanwhile.
        while self._deferred_requests:
            try:
                one = self._deferred_requests.popleft()
            except IndexError:
                break
            if one.until > now:
                found.append(one)
        return found

    @property
    def has_deferred(self) -> bool:
        """Whether there are requests that the node must still receive."""
        return bool(self._deferred_requests)


def first_of(nodes: Sequence[Node]) -> int | None:
    """Return the node that claims ask first after a refusal; None if no node is usable.

    Clients that see the same nodes as usable choose the same first node.
    """
    for node in nodes:
        if node.counts and node.scripts is not None and not node.is_slow and not node.trouble:
            return node.number
    return None


LOOK, RENEW_BIRTH, SET_TERMS = 0, 1, 2
"""What a handshake may write; see enrol.lua."""


# The handshake, which identifies a node's process, and learns whether it may have forgotten
# something.
#
# A process is identified by its `run_id`, which changes at each restart. The data that a new
# process reads from disk may lack the last grants, so a new process does not count at first. The
# handshake does no I/O: it is a generator that yields requests and is sent the replies.
#
# A node without terms gets the terms of the client that enrols it, and from then on refuses every
# client with other terms. So a client writes nothing before it requests a lock, and a client that
# only inspects enrols no node. A client sets its terms only if more nodes have these terms than
# other terms, or if no node has any terms.


@dataclass(slots=True)
class NodeTerms:
    """The terms on which all clients of the same nodes have to agree."""

    questions: NodeRequests
    max_ttl: float
    durable: bool
    has_asked_for_a_lock: bool = False

    @property
    def undo(self) -> str:
        """How to remove terms that were set by mistake."""
        return (
            "correct this client or, if the node was set up by mistake, stop the clients that did "
            f"so and run DEL {self.questions.node_key} there: it counts again after max_ttl"
        )


def may_write(node: Node, nodes: Sequence[Node], terms: NodeTerms) -> int:
    """Return what a handshake with the node may write, judged by the other nodes' terms."""
    if not terms.has_asked_for_a_lock:
        return LOOK
    others = [one for one in nodes if one is not node]
    without = sum(one.lacks_terms or isinstance(one.trouble, NotEnrolled) for one in others)
    agreeing = sum(one.scripts is not None and not one.lacks_terms for one in others)
    misfits = sum(isinstance(one.trouble, NodeMismatch) for one in others)
    is_enough = 1 + without + agreeing + misfits >= majority(len(nodes))
    is_accepted = agreeing > misfits or agreeing == misfits == 0
    return SET_TERMS if is_enough and is_accepted else RENEW_BIRTH


def handshake(
    node: Node, others: Sequence[Node], terms: NodeTerms
) -> Generator[list[bytes], list[Reply], None]:
    """Identify the node on a new connection, or again after the node forgot its birth."""
    [info] = _accepted((yield [packed(b"INFO", b"server")]), node)
    facts = dict(
        line.split(":", 1) for line in info.decode(errors="replace").splitlines() if ":" in line
    )
    run_id = facts.get("run_id", "")
    # Set the run_id before the check, so that of two concurrent handshakes at least one sees the
    # run_id of the other.
    node.run_id = run_id
    for other in others:
        # Compare with a node that is in trouble too: a busy machine may be late at each of the two
        # addresses in turn, and then no handshake would find both of them well.
        if other is not node and run_id and other.run_id == run_id:
            node.run_id = ""
            raise _mismatch(
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
        raise _mismatch(
            node,
            f"{node.where} is one of {number} nodes, and this client names {len(others)}: their "
            "majorities need not share a node, so two clients could hold the same lock; "
            f"{terms.undo}",
            of_nodes=number,
        )
    if max_ttl != round(terms.max_ttl * SECOND):
        raise _mismatch(
            node,
            f"{node.where} was set up with max_ttl={max_ttl / SECOND:g}, and this client says "
            f"max_ttl={terms.max_ttl:g}: all clients of these nodes need the same; {terms.undo}",
            of_nodes=number,
        )
    if durable != int(terms.durable):
        raise _mismatch(
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


def _mismatch(node: Node, why: str, *, of_nodes: int) -> NodeMismatch:
    # Stop using the node on existing connections, too.
    node.scripts, node.counts = None, False
    return NodeMismatch(why, of_nodes=of_nodes)


def _accepted(replies: Sequence[Reply], node: Node) -> Sequence[Reply]:
    for one in replies:
        if isinstance(one, ErrorReply):
            raise errors.refused(one, where=node.where)
        if isinstance(one, LockError):
            raise one
    return replies
