"""Combine the replies of N independent nodes into a verdict, a validity and a token.

No node decides for the others. A claim holds if a majority granted it. Any two majorities share a
node, and that node grants the name to only one claim at a time. A node that may have forgotten its
grants is not counted; whatever it replies counts neither as a grant nor as a refusal.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockfast.core.renewal import trusted_until
from lockfast.model import Renewal

if TYPE_CHECKING:
    from collections.abc import Sequence

NODE_TIMEOUT_SECONDS, TIMEOUTS_PER_TTL = 0.05, 20
"""Timeout for one node, in seconds, and how many times a node's timeout must fit into the ttl."""

TOKEN_MAX_LEAD = 10.0
"""A node ignores a floor that is more than this many seconds ahead of the node's clock. Otherwise a
client with a wrong idea of the clocks could push the tokens far ahead of them.
"""


def majority(nodes: int) -> int:
    """Return how many of the nodes have to grant."""
    return nodes // 2 + 1


def may_ignore_node(*, of_nodes: int, agreeing: int, nodes: int) -> bool:
    """Return whether a node may be ignored that uses other terms, with `of_nodes` nodes.

    Clients with the node's terms need a majority of `of_nodes` nodes, and we need a majority of
    ours. Only a node that agrees with us certainly does not count for those clients. Every other
    node may count for those clients, even a node that our own terms do not name. So a node may be
    ignored only if the nodes that do not agree with us are too few for a majority of `of_nodes`.
    """
    return max(nodes, of_nodes) - agreeing < majority(of_nodes)


def nodes_to_end(nodes: int) -> int:
    """Return the number of nodes that must end a claim so that no majority of nodes still holds it.

    The same number of nodes is needed to bring a node up to date that forgot its grants. Of that
    many nodes, at least one belonged to the majority that granted a token, and remembers the token.
    """
    return nodes - majority(nodes) + 1


def node_timeout(ttl: float) -> float:
    """Return the timeout for one node, far below the ttl."""
    return min(NODE_TIMEOUT_SECONDS, ttl / TIMEOUTS_PER_TTL)


def validity(*, ttl: float, elapsed: float) -> float:
    """Return how long a grant remains valid, `elapsed` seconds after it was requested."""
    return trusted_until(sent_at=0.0, ttl=ttl) - elapsed


# -- the tally ---------------------------------------------------------------------------


class NodeVote(enum.Enum):
    """One node's answer to a request; OVERDUE means that it has not replied within its timeout."""

    GRANTED = enum.auto()
    REFUSED = enum.auto()
    NOT_COUNTED = enum.auto()
    UNREACHABLE = enum.auto()
    WAITING = enum.auto()
    OVERDUE = enum.auto()


class Verdict(enum.Enum):
    """The combined result of the votes; OPEN while further replies may decide."""

    OPEN = enum.auto()
    GRANTED = enum.auto()
    REFUSED = enum.auto()
    UNREACHABLE = enum.auto()


def verdict(votes: Sequence[NodeVote], *, is_time_up: bool = False) -> Verdict:
    """Return the result so far.

    If the nodes that have granted or refused, or may still do so in time, are a majority, no
    overdue node is waited for, because a hung node must not delay every refusal. When the time is
    up, no node is waited for.
    """
    needed = majority(len(votes))
    granted = votes.count(NodeVote.GRANTED)
    if granted >= needed:
        return Verdict.GRANTED
    refused, waiting = votes.count(NodeVote.REFUSED), votes.count(NodeVote.WAITING)
    if granted + refused + waiting < needed:
        waiting += votes.count(NodeVote.OVERDUE)
    if not is_time_up and waiting and granted + waiting >= needed:
        return Verdict.OPEN
    if granted + refused >= needed:
        return Verdict.REFUSED
    if not is_time_up and granted + refused + waiting >= needed:
        return Verdict.OPEN  # the next reply decides between refused and unreachable
    return Verdict.UNREACHABLE


def renewal(outcomes: Sequence[Renewal]) -> Renewal:
    """Return the outcome of a renewal, from its outcome on each node.

    A lease is RENEWED only if a majority renewed it. A lease is LOST or BROKEN as soon as too few
    nodes are left for a majority that could still hold it.
    """
    count = Counter(outcomes)
    needed = majority(len(outcomes))
    if count[Renewal.RENEWED] >= needed:
        return Renewal.RENEWED
    if count[Renewal.RENEWED] + count[Renewal.UNKNOWN] >= needed:
        return Renewal.UNKNOWN
    return Renewal.BROKEN if count[Renewal.BROKEN] else Renewal.LOST


# -- the token ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgreedToken:
    """The token of one hold, derived from the tokens that the nodes granted for it.

    If the token is not settled, no majority has stored it yet. It may then be used only after a
    majority of nodes has been raised to it. Otherwise the next holder could get the same token, or
    a smaller one.
    """

    token: int
    is_settled: bool


def allotted(tokens: Sequence[int], *, nodes: int) -> AgreedToken:
    """Return the token that follows from these replies.

    If a majority granted the same token, that majority has stored the token already, and no other
    token can have a majority. If the token of a hold was raised earlier, a repeated request finds
    the raised token in the same way.
    """
    needed = majority(nodes)
    for token in tokens:
        if tokens.count(token) >= needed:
            return AgreedToken(token, is_settled=True)
    return AgreedToken(max(tokens), is_settled=False)


def may_agree(tokens: Sequence[int], *, nodes: int, waiting: int) -> bool:
    """Return whether these replies settle no token, but outstanding replies could.

    After a majority has granted a claim, a further node may grant it too, with a larger token of
    its own. A repeated request may receive such a larger token first. If the client then raised the
    nodes to that token, it would change the token of a lease in use. With this check, the client
    finds the majority's token in whatever order the nodes reply.
    """
    most = max(map(tokens.count, tokens))
    return most < majority(nodes) <= most + waiting


@dataclass(frozen=True, slots=True)
class Floor:
    """The lower bound that a client sends to the nodes so that all grant the same token.

    `ahead` is how far the fastest node's clock is ahead of ours, in seconds; `margin` is added for
    the requests of other clients and for the network delay. Correctness depends on neither value; a
    wrong value only costs a second round of requests.
    """

    ahead: float | None = None
    margin: float = 0.002

    def at(self, now: float) -> float:
        """Return the smallest token to grant now, in seconds; 0 while no node's clock is known."""
        return 0.0 if self.ahead is None else now + self.ahead + self.margin

    def after(
        self, *, ahead: float, tokens: Sequence[float], asked: float, is_settled: bool
    ) -> Floor:
        """Return the next floor, given the floor `asked` and the tokens that were then granted.

        If `asked` was too small, the margin grows by more than the shortfall. While the margin is
        large enough, it shrinks slowly.
        """
        if is_settled or not asked:
            return replace(self, ahead=ahead, margin=max(0.0005, self.margin * 0.999))
        short = max(tokens) - asked
        # A shortfall of at least half of TOKEN_MAX_LEAD comes from a clock, not from a margin that
        # is too small.
        margin = self.margin + 1.5 * short if 0 < short < TOKEN_MAX_LEAD / 2 else self.margin
        return replace(self, ahead=ahead, margin=min(margin, TOKEN_MAX_LEAD / 2))
