"""The figures that advice rests on: what was seen of one pattern of names, with one ttl."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from lockfast.observe.spans import Spread

Source: TypeAlias = Literal["events", "looks"]
"""From what figures come: from what clients told of each lease, or from looking at the store now
and then. Looking sees a short hold only by chance, and knows each only to within an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Busiest:
    """The name of a pattern that most time was spent waiting for."""

    name: str
    acquired: int = 0
    stood_in_line: int = 0
    """How many of these had to wait."""
    mean_wait: float = 0.0
    """Over all of these, those that did not wait too."""
    mean_hold: float = 0.0
    line: float = 0.0
    """How many waited at a time; only looks know it."""
    in_use: float = 0.0
    """At which part of all looks it was held; only looks know it."""

    @property
    def holds_ahead(self) -> float:
        """How many holds a waiter waits for, one after the other."""
        if self.line:
            return self.line
        return self.mean_wait / self.mean_hold if self.mean_hold else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was seen in `seconds` of one pattern of names, one ttl, and renewal or none."""

    pattern: str
    ttl: float
    """0 where it is not known: to look at a store with sessions does not tell it."""
    renews: bool
    source: Source = "events"
    seconds: float = 0.0
    kind: str = "lock"
    holds: Spread = field(default_factory=Spread)
    """Those that their holders ended."""
    waits: Spread = field(default_factory=Spread)
    """Of all that were acquired, those that did not wait too."""
    losses: tuple[tuple[str, int], ...] = ()
    """How many were lost, by reason."""
    timeouts: int = 0
    renewals: int = 0
    at_risk: int = 0
    least_margin: float | None = None
    """How much of the ttl was left at the latest renewal; None if none was seen."""
    usual_margin: float | None = None
    """How much is left when all is well."""
    busiest: Busiest | None = None
    """None if nobody waited."""
    interval: float = 0.0
    """The time between two looks."""

    def lost(self, reason: str) -> int:
        """Return how many were lost for that reason."""
        return dict(self.losses).get(reason, 0)

    @property
    def exceeded(self) -> int:
        """How many leases without renewal were held beyond their ttl."""
        return 0 if self.renews else self.lost("expired")

    @property
    def ended(self) -> int:
        """How many holds could be timed, or were longer than their ttl."""
        return self.holds.count + self.exceeded

    @property
    def latest_renewal(self) -> float | None:
        """By how many seconds a renewal was late, at worst; None if none was seen."""
        if self.least_margin is None or self.usual_margin is None:
            return None
        return max(0.0, self.usual_margin - self.least_margin)

    @property
    def has_waited_for_the_dead(self) -> bool:
        """Whether somebody waited for most of a ttl, and no hold explains it: its holder died."""
        longest = self.waits.longest
        return longest >= self.ttl / 2 and longest > self.holds.longest * 3
