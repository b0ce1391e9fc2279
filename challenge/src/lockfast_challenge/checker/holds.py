"""Time spans in which a client certainly held the lock."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lockfast_challenge.history import HistoryOperation


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredGrant:
    """An acquire that succeeded at some time from `asked` to `granted`.

    How long it was held is unknown: it may have ended before the client received the reply.
    """

    client: str
    number: int
    name: str
    weight: int
    capacity: int
    token: int | None
    asked: float
    granted: float
    within: int | None = None

    @property
    def is_exclusive(self) -> bool:
        """Whether the hold takes the whole capacity, so that nobody else may be inside."""
        return self.weight >= self.capacity

    def __str__(self) -> str:
        return f"client {self.client} at {self.granted:.3f}{self._token}"

    @property
    def _token(self) -> str:
        return "" if self.token is None else f", token {self.token}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertainHold(AnsweredGrant):
    """One hold of a client, which is certain from `granted` to `until`, both included."""

    until: float
    released: float | None
    """When the release was answered; None if the hold was not released, or its release failed."""

    def __str__(self) -> str:
        return f"client {self.client} from {self.granted:.3f} to {self.until:.3f}{self._token}"


def definite_holds(operations: Iterable[HistoryOperation]) -> list[CertainHold]:
    """Return the certain part of every hold, ordered by when it began."""
    granted: dict[tuple[str, int], HistoryOperation] = {}
    until: dict[tuple[str, int], float] = {}
    released: dict[tuple[str, int], float | None] = {}
    for one in operations:
        key = (one.client, one.hold)
        if not one.is_ok:
            continue
        if one.act == "acquire":
            granted[key] = one
        else:
            until[key] = max(one.invoked, until.get(key, one.invoked))
            if one.act == "release":
                released[key] = one.answered
    # Inner holds come before outer holds, so that a proof propagates all the way out. The order is
    # that of their numbers, because two holds may have the same time.
    for key, one in sorted(granted.items(), key=lambda each: each[1].hold, reverse=True):
        outer = (one.client, one.within) if one.within is not None else None
        if outer in granted and key in until:
            until[outer] = max(until[key], until.get(outer, until[key]))
            released[outer] = _later(released.get(outer), released.get(key))
    found = [
        CertainHold(
            client=one.client,
            number=one.hold,
            name=one.name,
            weight=one.weight,
            capacity=one.capacity,
            token=one.token,
            asked=one.invoked,
            granted=one.answered,
            until=until[key],
            released=released.get(key),
            within=one.within,
        )
        for key, one in granted.items()
        if key in until and one.answered is not None and until[key] >= one.answered
    ]
    return sorted(found, key=lambda hold: hold.granted)


def all_grants(operations: Sequence[HistoryOperation]) -> list[AnsweredGrant]:
    """Return the certain holds, and the grants whose holder never showed that it held.

    Such a holder died before its first check, or was frozen for too long. A re-entry among these
    shows nothing, because it takes no room and no token of its own.
    """
    certain = definite_holds(operations)
    known = {(hold.client, hold.number) for hold in certain}
    unproven = [
        AnsweredGrant(
            client=one.client,
            number=one.hold,
            name=one.name,
            weight=one.weight,
            capacity=one.capacity,
            token=one.token,
            asked=one.invoked,
            granted=one.answered,
        )
        for one in operations
        if one.act == "acquire" and one.is_ok and one.answered is not None and one.within is None
        if (one.client, one.hold) not in known
    ]
    return sorted([*certain, *unproven], key=lambda grant: grant.granted)


def _later(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


# Time spans, and the gaps between them.


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A span of time, with both ends included."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """The length in seconds; negative if the span ends before it starts."""
        return self.end - self.start

    def within(self, other: TimeSpan) -> TimeSpan:
        """Return the part of this span that lies in the other span."""
        return TimeSpan(max(self.start, other.start), min(self.end, other.end))


def joined(spans: Iterable[TimeSpan], *, pause: float) -> list[TimeSpan]:
    """Return the spans, with neighbours merged if the gap between them is at most `pause`."""
    found: list[TimeSpan] = []
    for one in sorted(spans, key=lambda span: span.start):
        if found and one.start - found[-1].end <= pause:
            found[-1] = TimeSpan(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return found


def gaps(spans: Iterable[TimeSpan]) -> list[TimeSpan]:
    """Return the gaps before, between and after the spans, in order."""
    end, found = -inf, []
    for one in joined(spans, pause=0.0):
        found.append(TimeSpan(end, one.start))
        end = one.end
    return [*found, TimeSpan(end, inf)]
