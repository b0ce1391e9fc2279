"""What the nodes answered, put together: who holds a name, and how each node stands to a claim."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lockfast.backends.redis.requests import SECOND
from lockfast.backends.redis.resp import Refusal
from lockfast.core.quorum import Standing, majority
from lockfast.model import Closing, Held, Holder, Inspection, Owner, Renewal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REPEATED = 2
"""What a node answers that had granted an acquire before; see acquire.lua."""

RENEWALS = {0: Renewal.LOST, 1: Renewal.RENEWED, 2: Renewal.BROKEN}


_DONE = (int, int, int)
_SEEN = (int, int, int, bytes, bytes, int, int, int, int)
_GRANTED = (int, int, int, int)
FORMS: dict[str, tuple[tuple[type, ...], ...]] = {
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
"""What each script may answer, but for {-1}."""


def is_answer(verb: str, reply: Any) -> bool:  # noqa: ANN401 - of the server's making
    """Whether a script of ours can have answered that."""
    if reply.__class__ is not list or tuple(map(type, reply)) not in FORMS[verb]:
        return False
    if verb == "acquire":
        return bool(reply[2]) == (len(reply) == len(_GRANTED))
    return verb != "renew" or reply[2] in RENEWALS


def standing(replies: Sequence[Any]) -> Standing:
    """Return how a node stands that answered an acquire."""
    reply = replies[0]
    if not reply[1]:
        return Standing.NOT_COUNTED
    return Standing.GRANTED if reply[2] else Standing.REFUSED


done = standing
"""How a node stands that was told something: it has granted that if it was done there."""


@dataclass(frozen=True, slots=True)
class Given:
    """What one node granted, at which time of its clock; whether it had done so before."""

    now: float
    token: int
    is_repeated: bool


def given(found: Mapping[int, Sequence[Any]]) -> list[Given]:
    """Return what those nodes gave that granted an acquire."""
    return [
        Given(reply[0] / SECOND, reply[3], is_repeated=reply[2] == REPEATED)
        for reply, *_ in found.values()
        if reply[1] and reply[2]
    ]


def renewed(reply: Any) -> Renewal:  # noqa: ANN401 - of the server's making
    """Return what became of a renewal at one node; what it says counts only if it counts."""
    if isinstance(reply, Refusal):
        return Renewal.UNKNOWN
    _, counts, outcome = reply
    found = RENEWALS[outcome]
    return found if counts or found is not Renewal.RENEWED else Renewal.LOST


@dataclass(frozen=True, slots=True)
class Seen:
    """What one node says of a name; times in seconds, of its own clock."""

    now: float
    claim: str
    owner: str
    token: int
    since: float
    ends: float
    shut: float
    last_token: int = 0


def seen_by_refusal(reply: Sequence[Any]) -> Seen:
    """Read an acquire that was refused."""
    now, _, _, *rest = reply
    return _seen(now, rest)


def seen_by_inspection(reply: Sequence[Any]) -> Seen:
    """Read an inspection."""
    now, _, last, *rest = reply
    return _seen(now, rest, last_token=last)


def _seen(now: int, rest: Sequence[Any], *, last_token: int = 0) -> Seen:
    claim, owner, token, since, ends, shut = rest
    return Seen(
        now=now / SECOND,
        claim=claim.decode(),
        owner=owner.decode(),
        token=token,
        since=since / SECOND,
        ends=ends / SECOND,
        shut=shut / SECOND,
        last_token=last_token,
    )


def holders(found: Iterable[Seen], *, unheard: int, nodes: int) -> dict[str, Holder]:
    """Return who may hold the name, by claim: seen by a majority, or by some of those heard.

    One who is seen by too few for that is on the way in or out.
    """
    by_claim: dict[str, list[Seen]] = {}
    for one in found:
        if one.claim:
            by_claim.setdefault(one.claim, []).append(one)
    return {
        claim: _holder(seen)
        for claim, seen in by_claim.items()
        if len(seen) + unheard >= majority(nodes)
    }


def _holder(seen: Sequence[Seen]) -> Holder:
    [(token, _)] = Counter(sorted((one.token for one in seen), reverse=True)).most_common(1)
    return Holder(
        Owner.from_text(seen[0].owner),
        token,
        1,
        max(0.0, *(one.now - one.since for one in seen)),
        max(one.ends - one.now for one in seen),
    )


def closing(found: Sequence[Seen], *, unheard: int, nodes: int) -> tuple[Closing, ...]:
    """Return what keeps a majority of the nodes closed though nobody holds the name."""
    shut = [one for one in found if one.shut and not one.claim]
    if not shut or len(shut) + unheard < majority(nodes):
        return ()
    remaining = sorted(one.shut - one.now for one in shut)
    # It opens when a majority has opened, by those of them that are known to be open now.
    missing = majority(nodes) - (nodes - unheard - len(shut))
    opens = remaining[max(1, min(missing, len(remaining))) - 1]
    return (Closing(Owner.from_text(shut[0].owner), 1, opens),)


def held(found: Sequence[Seen], *, nodes: int, look_again: float, granted: int = 0) -> Held:
    """Return the no of those who refused, and when asking again may help."""
    unheard = nodes - len(found)
    inside = tuple(holders(found, unheard=unheard, nodes=nodes).values())
    shut = () if inside else closing(found, unheard=unheard - granted, nodes=nodes)
    ends = [one.remaining or 0.0 for one in inside] + [one.remaining for one in shut]
    return Held(inside, None, max(0.001, min([*ends, look_again])), shut)


def inspection(name: str, found: Mapping[int, Seen], *, nodes: int) -> Inspection:
    """Return what the nodes that were heard say together."""
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
