"""Stretches of time, and what others leave of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when, both included."""

    start: float
    end: float

    @property
    def length(self) -> float:
        """Return its seconds; what ends before it starts has fewer than none."""
        return self.end - self.start

    def within(self, other: Span) -> Span:
        """Return the part of it that lies in the other."""
        return Span(max(self.start, other.start), min(self.end, other.end))


def joined(spans: Iterable[Span], *, pause: float) -> list[Span]:
    """Return them as one wherever no more than a pause lies between them."""
    found: list[Span] = []
    for one in sorted(spans, key=lambda span: span.start):
        if found and one.start - found[-1].end <= pause:
            found[-1] = Span(found[-1].start, max(found[-1].end, one.end))
        else:
            found.append(one)
    return found


def gaps(spans: Iterable[Span]) -> list[Span]:
    """Return what they leave of all time, in its order."""
    end, found = -inf, []
    for one in joined(spans, pause=0.0):
        found.append(Span(end, one.start))
        end = one.end
    return [*found, Span(end, inf)]
