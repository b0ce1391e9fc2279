"""Reads the scripts' replies and their messages to waiting clients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from lockfast.backends.redis.requests import RENEWAL_REPLIES, SECOND, Cursor
from lockfast.backends.redis.resp import ErrorReply
from lockfast.core.lease_text import hold_of
from lockfast.errors import BackendMisbehaved, LockError
from lockfast.model import Closing, Crowd, Holder, Inspection, Owner, Renewal, Waiter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HOLDERS_SHOWN = 16
"""Page size of the scripts, as in door.lua; it limits how long one request keeps a server busy."""


class JoinedLine(NamedTuple):
    """The place in line of a claim that was not granted.

    `epoch` belongs to the claim's client; if a later reply has another epoch, the place is lost.
    `last_token` is the last token granted for the name. `ends_in` is the time, in seconds, until
    the first of the claims inside expires.
    """

    number: int | None
    epoch: int
    last_token: int
    ends_in: float | None
    holders: tuple[Holder, ...]
    closing: tuple[Closing, ...]


@dataclass(frozen=True, slots=True)
class InspectionPage:
    """One page of an inspection: holders and closings by claim, and part of the line."""

    capacity: int
    token: int
    inside: dict[bytes, Holder | Closing]
    line: list[Waiter]
    following: Cursor | None


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """The reply to a heartbeat for one name; see beat.lua."""

    epoch: int
    ends_in: float | None
    is_unsettled: bool


class WakeupMessage(NamedTuple):
    """A message that a claim was admitted; see door.lua."""

    claim: str
    token: int


def wakeup_message(message: bytes) -> WakeupMessage:
    """Read the message that wakes a claim."""
    claim, token = message.split(b" ")
    return WakeupMessage(claim.decode(), int(token))


def refused(reply: list[Any]) -> JoinedLine | int:
    """Read the reply to a refused acquire: the place in line, or the capacity in use as an int."""
    if reply[0] == 0:
        return whole(reply[1])
    return in_line(reply)


def in_line(reply: list[Any]) -> JoinedLine:
    """Read the reply to an acquire that was not granted."""
    now, number, epoch, token, *inside = reply
    first = min(map(int, inside[::2]), default=None)
    ends_in = None if first is None else (first - now) / SECOND
    seen = _all_seen(inside, now)
    if len(seen) == 1 and isinstance(one := seen[0], Holder):  # the usual case
        return JoinedLine(number or None, epoch, token, ends_in, (one,), ())
    closing = tuple([one for one in seen if isinstance(one, Closing)])
    return JoinedLine(number or None, epoch, token, ends_in, _holders_of(seen), closing)


def holders(inside: list[Any], now: int) -> tuple[Holder, ...]:
    """Read alternating deadlines and records; return the holders in the order of their grants."""
    return _holders_of(_all_seen(inside, now))


def _holders_of(seen: Iterable[Holder | Closing]) -> tuple[Holder, ...]:
    return _in_order(one for one in seen if isinstance(one, Holder))


def _all_seen(inside: list[Any], now: int) -> list[Holder | Closing]:
    pairs = zip(inside[::2], inside[1::2], strict=True)
    return [seen for end, record in pairs if (seen := _seen(end, record, now)) is not None]


def _seen(
    end: bytes, record: bytes, now: int, *, claim: bytes | None = None
) -> Holder | Closing | None:
    """Return the holder or the closing that a record describes; None if it has ended.

    The record of an expired hold becomes a closing only with the next request that changes the
    door; see door.lua. Until then this function does the same calculation.
    """
    one = _fields(record)
    ends = int(end)
    if one.state == "H" and ends <= now:
        ends = max(ends + one.delay, min(one.since, ends) + one.hold)
        one = one._replace(state="C")
    if ends <= now:
        return None
    remaining = (ends - now) / SECOND
    if one.state == "C":
        return Closing(one.owner, one.weight, remaining)
    age = max(0.0, (now - one.since) / SECOND)
    hold = "" if claim is None else hold_of(claim.decode(), party=one.party)
    return Holder(one.owner, one.token, one.weight, age, remaining, hold)


def _in_order(found: Iterable[Holder]) -> tuple[Holder, ...]:
    return tuple(sorted(found, key=lambda one: (one.token or 0, -one.age)))


def whole(reply: Any) -> int:  # noqa: ANN401 - of the server's making
    """Read a number."""
    if reply.__class__ is not int:
        raise TypeError("not a number")
    return int(reply)


def truth(reply: Any) -> bool:  # noqa: ANN401 - of the server's making
    """Read a reply that says whether something was done."""
    return bool(whole(reply))


def renewal(reply: Any) -> Renewal:  # noqa: ANN401 - of the server's making
    """Read the outcome of a renewal; an error or a refusal leaves it unknown."""
    if isinstance(reply, LockError | ErrorReply):
        return Renewal.UNKNOWN
    return RENEWAL_REPLIES[whole(reply)]


def scanned(reply: list[Any]) -> tuple[bytes, list[bytes]]:
    """Read one part of a scan of all keys, and the cursor of the next part."""
    cursor, found = reply
    if not isinstance(cursor, bytes) or not all(isinstance(one, bytes) for one in found):
        raise TypeError("not a part of all keys")
    return cursor, found


def broken(reply: list[Any]) -> tuple[tuple[Holder, ...], int]:
    """Read the broken holders, and how many claims the next request skips; negative at the end."""
    now, skipped, *records = reply
    return holders(records, now), whole(skipped)


def heartbeat_replies(reply: list[int], *, number: int) -> list[HeartbeatReply]:
    """Read the reply to a heartbeat for `number` names."""
    if len(reply) != 3 * number:
        raise ValueError("not one beat for each name")
    return [
        HeartbeatReply(epoch, None if ends_in < 0 else ends_in / SECOND, bool(more))
        for epoch, ends_in, more in zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    ]


def page(reply: list[Any]) -> InspectionPage:
    """Read a page of an inspection."""
    now, capacity, token, count, *items = reply
    inside, line = items[:count], items[count:]
    places = zip(inside[::3], inside[1::3], inside[2::3], strict=True)
    waiting = [_fields(record) for record in line[1::2] if record]
    return InspectionPage(
        capacity=capacity,
        token=token,
        inside={
            claim: seen
            for end, claim, record in places
            if (seen := _seen(end, record, now, claim=claim)) is not None
        },
        line=[
            # A waiting claim's token is its time of arrival.
            Waiter(one.owner, one.weight, 0, max(0.0, (now - one.token) / SECOND))
            for one in waiting
        ],
        following=_following(ends=inside[::3], arrivals=line[::2]),
    )


def crowd(reply: list[Any]) -> Crowd:
    """Count the claims in a page of an inspection, without parsing their records."""
    now, _, token, count, *items = reply
    inside = sum(int(end) > now for end in items[:count:3])
    return Crowd(inside + sum(map(bool, items[count + 1 :: 2])), token or None)


def _following(*, ends: Sequence[bytes], arrivals: Sequence[bytes]) -> Cursor | None:
    """Return where the next page begins; None after the last page."""
    if len(ends) < HOLDERS_SHOWN and len(arrivals) < HOLDERS_SHOWN:
        return None
    return Cursor(
        arrival=arrivals[-1] if len(arrivals) == HOLDERS_SHOWN else b"+inf",
        ends=b"(" + ends[-1] if len(ends) == HOLDERS_SHOWN else b"+inf",
    )


def inspection(name: str, pages: Sequence[InspectionPage]) -> Inspection:
    """Combine pages into one inspection; if a hold is on several pages, the last page counts."""
    inside = {claim: one for page in pages for claim, one in page.inside.items()}.values()
    line = [one for page in pages for one in page.line]
    return Inspection(
        name=name,
        capacity=pages[0].capacity,
        holders=_in_order(one for one in inside if isinstance(one, Holder)),
        line=tuple(replace(one, place=number) for number, one in enumerate(line, 1)),
        last_token=pages[0].token or None,
        closing=tuple(one for one in inside if isinstance(one, Closing)),
    )


class _Record(NamedTuple):
    """A claim's record, as door.lua writes it; times in µs."""

    state: str
    since: int
    token: int
    weight: int
    delay: int
    hold: int
    party: str | None
    owner: Owner


def _fields(record: bytes) -> _Record:
    fields = record.decode().split(" ", 9)
    if len(fields) != 10:  # noqa: PLR2004 - see door.lua
        raise BackendMisbehaved(f"a record of a claim cannot be read: {record[:80]!r}")
    state, since, token, weight, _, delay, hold, party, _, owner = fields
    return _Record(
        state,
        int(since),
        int(token),
        int(weight),
        int(delay),
        int(hold),
        None if party == "-" else party,
        _owner(owner),
    )


# Cache the owners, because each reply to a claim in line names the holders, which are usually the
# same few.
_owner = lru_cache(maxsize=256)(Owner.from_text)
