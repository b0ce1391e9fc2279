"""What the answers of N independent nodes mean together: tally, validity, token.

No node speaks for the others. What a majority granted is held, because two majorities share a
node, and that node has one holder. A node that does not count (it may have forgotten what it
granted) neither grants nor refuses, whatever it answers.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lockfast.core.trust import trusted_until
from lockfast.model import Renewal

if TYPE_CHECKING:
    from collections.abc import Sequence

NODE_TIMEOUT, TIMEOUTS_PER_TTL = 0.05, 20
"""A node is waited for this long, and for no more than this part of the ttl."""

MOST_AHEAD = 10.0
"""A floor further ahead of a node's clock than this is ignored there: a client that is wrong
about the clocks must not push the tokens away from them."""


def majority(nodes: int) -> int:
    """Return how many of the nodes have to grant."""
    return nodes // 2 + 1


def may_pass_over(*, of_nodes: int, agreeing: int, nodes: int) -> bool:
    """Whether a node with other terms can count as away; `of_nodes` is their number by its terms.

    Its clients need a majority of those, and we one of ours. Only a node that agrees with us is
    known not to be theirs: all others may be, also nodes that we do not name. So a majority of
    theirs must not fit beside the nodes that agree with us.
    """
    return max(nodes, of_nodes) - agreeing < majority(of_nodes)


def enough_to_end(nodes: int) -> int:
    """Return on how many nodes a claim must be ended so that it holds no majority of them.

    As many have to teach a node that forgot: of whichever majority gave a token, one is among
    them that remembers it.
    """
    return nodes - majority(nodes) + 1


def node_timeout(ttl: float) -> float:
    """Return how long one node is waited for, far below the ttl."""
    return min(NODE_TIMEOUT, ttl / TIMEOUTS_PER_TTL)


def validity(*, ttl: float, elapsed: float) -> float:
    """Return for how long a grant can still be relied on, so long after it was asked for."""
    return trusted_until(sent_at=0.0, ttl=ttl) - elapsed


# -- the tally ---------------------------------------------------------------------------


class Standing(enum.Enum):
    """How one node stands to a request. OVERDUE has not answered for longer than it should."""

    GRANTED = enum.auto()
    REFUSED = enum.auto()
    NOT_COUNTED = enum.auto()
    UNREACHABLE = enum.auto()
    WAITING = enum.auto()
    OVERDUE = enum.auto()


class Verdict(enum.Enum):
    """What all of them mean together; OPEN while it still depends on who answers next."""

    OPEN = enum.auto()
    GRANTED = enum.auto()
    REFUSED = enum.auto()
    UNREACHABLE = enum.auto()


def verdict(standings: Sequence[Standing], *, is_time_up: bool = False) -> Verdict:
    """Return what is known by now.

    A node that is overdue is waited for only where the others are no majority without it: a
    hung node must not delay each refusal. When the time is up nobody is waited for.
    """
    needed = majority(len(standings))
    granted = standings.count(Standing.GRANTED)
    if granted >= needed:
        return Verdict.GRANTED
    refused, waiting = standings.count(Standing.REFUSED), standings.count(Standing.WAITING)
    if granted + refused + waiting < needed:
        waiting += standings.count(Standing.OVERDUE)
    if not is_time_up and waiting and granted + waiting >= needed:
        return Verdict.OPEN
    if granted + refused >= needed:
        return Verdict.REFUSED
    if not is_time_up and granted + refused + waiting >= needed:
        return Verdict.OPEN  # refused or out of reach: who answers next tells
    return Verdict.UNREACHABLE


def renewal(outcomes: Sequence[Renewal]) -> Renewal:
    """Return what became of a renewal, from what became of it on each node.

    RENEWED by a majority alone; over as soon as no majority is left that could hold it.
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
class Allotted:
    """The token of one hold, by what each node gave for it.

    Where it is not settled, a majority does not know it yet: it may be used only once a majority
    was raised to it. Else the next holder could get the same one, or a smaller.
    """

    token: int
    is_settled: bool


def allotted(tokens: Sequence[int], *, nodes: int) -> Allotted:
    """Return the token that these answers give.

    One that a majority gave exactly is stored on a majority already; only one can be. It is also
    what a repeated request finds of a hold whose token was raised.
    """
    needed = majority(nodes)
    for token in tokens:
        if tokens.count(token) >= needed:
            return Allotted(token, is_settled=True)
    return Allotted(max(tokens), is_settled=False)


def may_agree(tokens: Sequence[int], *, nodes: int, waiting: int) -> bool:
    """Whether these answers settle no token, and those still waited for could.

    Nodes that grant a claim after a majority did give it larger tokens of their own. Who asks
    for it again may hear those first: raising the largest would change the token of a lease that
    is in use. In whichever order they answer, the token that a majority gave is found.
    """
    most = max(map(tokens.count, tokens))
    return most < majority(nodes) <= most + waiting


@dataclass(frozen=True, slots=True)
class Floor:
    """What a client tells the nodes so that all of them give the same token.

    `ahead` is by how much the clock of the node furthest ahead is ahead of ours, in seconds;
    `margin` is what is added for the requests of others, and for the way. Nothing rests on
    either being right: a wrong one costs a second round.
    """

    ahead: float | None = None
    margin: float = 0.002

    def at(self, now: float) -> float:
        """Return the smallest token to be given now, in seconds; 0 while no clock is known."""
        return 0.0 if self.ahead is None else now + self.ahead + self.margin

    def after(
        self, *, ahead: float, tokens: Sequence[float], asked: float, is_settled: bool
    ) -> Floor:
        """Return what to tell next, after such tokens were given where `asked` was told.

        The margin grows by more than what was short, and shrinks slowly while it is enough.
        """
        if is_settled or not asked:
            return replace(self, ahead=ahead, margin=max(0.0005, self.margin * 0.999))
        short = max(tokens) - asked
        # One that is as far ahead as nodes ignore is a clock, not a margin.
        margin = self.margin + 1.5 * short if 0 < short < MOST_AHEAD / 2 else self.margin
        return replace(self, ahead=ahead, margin=min(margin, MOST_AHEAD / 2))
