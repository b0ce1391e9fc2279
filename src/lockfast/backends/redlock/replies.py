"""Combines the nodes' replies: who holds a name, and how each node votes on a claim."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.redis.requests import SECOND
from lockfast.backends.redis.resp import ErrorReply
from lockfast.core.quorum import NodeVote, majority
from lockfast.model import Closing, Held, Holder, Inspection, Owner, Renewal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPEATED = 2
"""A node's reply to an acquire that it had already granted; see acquire.lua."""

RENEWAL_REPLIES = {0: Renewal.LOST, 1: Renewal.RENEWED, 2: Renewal.BROKEN}


_DONE = (int, int, int)
_SEEN = (int, int, int, bytes, bytes, int, int, int, int)
_GRANTED = (int, int, int, int)
REPLY_FORMS: dict[str, tuple[tuple[type, ...], ...]] = {
    "acquire": (_GRANTED, _SEEN),
    "raise": (_DONE,),
    "renew": (_DONE,),
    "release": (_DONE,),
    "withdraw": (_DONE,),
    "break": (_DONE,),
    "inspect": (_SEEN,),
    "witness": ((int, int, int, int, bytes), (int, int, int, int, type(None))),
    "admit": ((int, int),),
}
"""The possible replies of each script, as types, except {-1}, the reply of a node that forgot us.
"""


def is_answer(verb: str, reply: Any) -> bool:  # noqa: ANN401 - of the server's making
    """Return whether our script for this verb can have returned this reply."""
    if reply.__class__ is not list or tuple(map(type, reply)) not in REPLY_FORMS[verb]:
        return False
    if verb == "acquire":
        return bool(reply[2]) == (len(reply) == len(_GRANTED))
    return verb != "renew" or reply[2] in RENEWAL_REPLIES


def vote(replies: Sequence[Any]) -> NodeVote:
    """Return the vote of a node that replied to an acquire."""
    reply = replies[0]
    if not reply[1]:
        return NodeVote.NOT_COUNTED
    return NodeVote.GRANTED if reply[2] else NodeVote.REFUSED


done = vote
"""The vote of a node on a request other than an acquire: granted if the node carried it out."""


@dataclass(frozen=True, slots=True)
class GivenVote:
    """One node's grant; `now` is its clock's time, `is_repeated` if it had granted before."""

    now: float
    token: int
    is_repeated: bool


def vote_given(found: Mapping[int, Sequence[Any]]) -> list[GivenVote]:
    """Return the grants of the nodes that granted an acquire."""
    return [
        GivenVote(reply[0] / SECOND, reply[3], is_repeated=reply[2] == REPEATED)
        for reply, *_ in found.values()
        if reply[1] and reply[2]
    ]


def renewed(reply: Any) -> Renewal:  # noqa: ANN401 - of the server's making
    """Return the outcome of a renewal at one node; a node that does not count cannot renew."""
    if isinstance(reply, ErrorReply):
        return Renewal.UNKNOWN
    _, counts, outcome = reply
    found = RENEWAL_REPLIES[outcome]
    return found if counts or found is not Renewal.RENEWED else Renewal.LOST


@dataclass(frozen=True, slots=True)
class SeenHold:
    """One node's view of a name; times in seconds, by its own clock."""

    now: float
    claim: str
    owner: str
    token: int
    since: float
    ends: float
    shut: float
    last_token: int = 0


def seen_by_refusal(reply: Sequence[Any]) -> SeenHold:
    """Read the reply to an acquire that was refused."""
    now, _, _, *rest = reply
    return _seen(now, rest)


def seen_by_inspection(reply: Sequence[Any]) -> SeenHold:
    """Read the reply to an inspection."""
    now, _, last, *rest = reply
    return _seen(now, rest, last_token=last)


def _seen(now: int, rest: Sequence[Any], *, last_token: int = 0) -> SeenHold:
    claim, owner, token, since, ends, shut = rest
    return SeenHold(
        now=now / SECOND,
        claim=claim.decode(),
        owner=owner.decode(),
        token=token,
        since=since / SECOND,
        ends=ends / SECOND,
        shut=shut / SECOND,
        last_token=last_token,
    )


def holders(found: Iterable[SeenHold], *, unheard: int, nodes: int) -> dict[str, Holder]:
    """Return the possible holders by claim, from the views of the nodes that replied.

    Each of the `unheard` nodes may have granted any of these claims. A claim that cannot have a
    majority even with those nodes is left out, because it is just being acquired or released.
    """
    by_claim: dict[str, list[SeenHold]] = {}
    for one in found:
        if one.claim:
            by_claim.setdefault(one.claim, []).append(one)
    return {
        claim: _holder(seen)
        for claim, seen in by_claim.items()
        if len(seen) + unheard >= majority(nodes)
    }


def _holder(seen: Sequence[SeenHold]) -> Holder:
    [(token, _)] = Counter(sorted((one.token for one in seen), reverse=True)).most_common(1)
    return Holder(
        Owner.from_text(seen[0].owner),
        token,
        1,
        max(0.0, *(one.now - one.since for one in seen)),
        max(one.ends - one.now for one in seen),
    )


def closing(found: Sequence[SeenHold], *, unheard: int, nodes: int) -> tuple[Closing, ...]:
    """Return the closing, if any, that keeps a majority closed although nobody holds the name."""
    shut = [one for one in found if one.shut and not one.claim]
    if not shut or len(shut) + unheard < majority(nodes):
        return ()
    remaining = sorted(one.shut - one.now for one in shut)
    # The name opens once a majority of the nodes is open. Nodes that are already open count.
    missing = majority(nodes) - (nodes - unheard - len(shut))
    opens = remaining[max(1, min(missing, len(remaining))) - 1]
    return (Closing(Owner.from_text(shut[0].owner), 1, opens),)


def held(found: Sequence[SeenHold], *, nodes: int, look_again: float, granted: int = 0) -> Held:
    """Return the nodes' refusals as one, with the time until asking again may help."""
    unheard = nodes - len(found)
    inside = tuple(holders(found, unheard=unheard, nodes=nodes).values())
    shut = () if inside else closing(found, unheard=unheard - granted, nodes=nodes)
    ends = [one.remaining or 0.0 for one in inside] + [one.remaining for one in shut]
    return Held(inside, None, max(0.001, min([*ends, look_again])), shut)


def inspection(name: str, found: Mapping[int, SeenHold], *, nodes: int) -> Inspection:
    """Return the combined view of the nodes that replied."""
    seen = list(found.values())
    unheard = nodes - len(seen)
    inside = holders(seen, unheard=unheard, nodes=nodes)
    return Inspection(
        name=name,
        capacity=1,
        holders=tuple(inside.values()),
        line=(),
        last_token=max((one.last_token for one in seen), default=0) or None,
        closing=() if inside else closing(seen, unheard=unheard, nodes=nodes),
    )
