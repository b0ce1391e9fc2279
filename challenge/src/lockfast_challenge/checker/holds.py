"""Time spans in which a client certainly held the lock."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast_challenge.history import HistoryOperation


@dataclass(frozen=True, slots=True)
class CertainHold:
    """One hold of a client, which is certain from `granted` to `until`, both included."""

    client: str
    number: int
    name: str
    weight: int
    capacity: int
    token: int | None
    asked: float
    granted: float
    until: float
    released: float | None
    """When the release was answered; None if the hold was not released, or its release failed."""
    within: int | None = None

    @property
    def is_exclusive(self) -> bool:
        """Whether the hold takes the whole capacity, so that nobody else may be inside."""
        return self.weight >= self.capacity

    def __str__(self) -> str:
        token = "" if self.token is None else f", token {self.token}"
        return f"client {self.client} from {self.granted:.3f} to {self.until:.3f}{token}"


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
