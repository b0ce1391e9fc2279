"""What samples of a store show about its leases."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from lockfast.core.door import ADMISSION_WINDOW_SECONDS
from lockfast.core.renewal import at_risk_seconds, left_at_renewal_seconds
from lockfast.model import ALL, Finding
from lockfast.observe.figures import Busiest, Tally, duration
from lockfast.observe.patterns import Patterns, pattern_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast.model import Holder, Inspection
    from lockfast.observe.figures import Figures

# One hold, as seen in one or more samples of the store, and what the samples say about its ttl.
#
# A store reports how long a hold has lasted and how long it has left. Before the first renewal,
# these two times add up to exactly the ttl. If the time left has grown since the last sample, the
# hold was renewed.
#
# But a claim that was admitted by a release has only the admission window at first, and gets its
# ttl with the first renewal. If the sum equals that window, it most likely is the window, and the
# ttl is unknown until the first renewal.

UNRENEWED_AGES_LEFT: Final = 2.0
"""A lease is renewed after a third of its ttl. As long as the time left is at least this many times
its age, the lease counts as not renewed yet.
"""
OVERDUE_FRACTION: Final = 0.5
"""A lease that was never renewed, and has less than this fraction of its ttl left, counts as a
lease without renewal.
"""
SLACK_SECONDS: Final = 0.05
"""Tolerance for rounding and for the duration of a sample, in seconds."""


class HoldSample:
    """What is known about one hold, updated by each sample that shows it."""

    __slots__ = (
        "_until",
        "first_at",
        "in_window",
        "last_age",
        "last_at",
        "least_left",
        "most_left",
        "renewals",
        "ttl",
        "was_overdue",
    )

    def __init__(self, *, at: float, age: float, left: float | None) -> None:
        self.first_at: float = at
        self.last_at: float = at
        self.last_age: float = age
        self.renewals: int = 0
        self.ttl: float | None = None
        """The ttl; None while unknown, because the store does not report the time left, or the
        first sample was too late.
        """
        self.most_left: float = left or 0.0
        self.least_left: float | None = left
        self.was_overdue: bool = False
        self._until = None if left is None else at + left
        self.in_window: bool = False
        """Whether the claim has most likely only been admitted, and not renewed yet."""
        if left is not None and left >= age * UNRENEWED_AGES_LEFT:
            self.in_window = abs(age + left - ADMISSION_WINDOW_SECONDS) <= SLACK_SECONDS
            self.ttl = None if self.in_window else age + left

    def again(self, *, at: float, age: float, left: float | None) -> None:
        """Record another sample that shows the hold."""
        since, self.last_at, self.last_age = at - self.last_at, at, age
        if left is None or self._until is None:
            return
        if at + left > self._until + SLACK_SECONDS:
            self._until = at + left
            self._renewed(left, since=since)
        elif left < (self._known or at - self.first_at + left) * OVERDUE_FRACTION:
            self.was_overdue = True
            self._settle_ttl()
        self.most_left = max(self.most_left, left)
        self.least_left = left if self.least_left is None else min(self.least_left, left)

    @property
    def _known(self) -> float | None:
        return ADMISSION_WINDOW_SECONDS if self.in_window else self.ttl

    def _renewed(self, left: float, *, since: float) -> None:
        if self._known is None or left <= self._known + SLACK_SECONDS:
            self.renewals += 1
            self._settle_ttl()
            return
        # The previous holder's release admitted this claim for a short window, and since the last
        # sample the claim was confirmed. Round up if that fits the times, because people choose
        # whole seconds for a ttl.
        whole = math.ceil(left)
        self.ttl = float(whole) if whole <= left + since + SLACK_SECONDS else left
        self.in_window = False
        self.least_left = left

    def _settle_ttl(self) -> None:
        """Conclude that the time presumed to be the admission window is the ttl.

        A claim that was only just admitted would not have been renewed, or be overdue, like this
        one.
        """
        self.ttl, self.in_window = self._known, False

    @property
    def is_unrenewed(self) -> bool:
        """Whether it is certain that the hold is not renewed."""
        return self.was_overdue and not self.renewals

    def ended(self, *, by: float) -> float:
        """Return the maximum length of the hold, if a sample at `by` no longer showed it."""
        return self.last_age + by - self.last_at

    def has_run_out(self, *, by: float) -> bool:
        """Return whether the hold had expired when it vanished, perhaps without a release."""
        return self._until is not None and self._until <= by + SLACK_SECONDS


# What a single sample of a store says about its leases; this is little, but reliable.

LONG_HOLD_SECONDS: Final = 600.0
"""A ttl of this many seconds or more means an outage if the holder dies."""
LONG_LINE: Final = 10
"""Number of waiting claims from which a line deserves a closer look."""
LOOK_CLOSER: Final = "look closer: lockfast advise"


def sample_findings(seen: Iterable[Inspection]) -> tuple[Finding, ...]:
    """Return a finding for each pattern that has a very long ttl or a long line."""
    patterns = Patterns()
    longest: dict[str, float] = {}
    crowds: dict[str, int] = {}
    for one in seen:
        pattern = patterns.of(one.name)
        for holder in one.holders:
            ttl = HoldSample(at=0.0, age=holder.age, left=holder.remaining).ttl or 0.0
            longest[pattern] = max(longest.get(pattern, 0.0), ttl)
        crowds[pattern] = max(crowds.get(pattern, 0), len(one.line))
    return (
        *(
            Finding(
                level="note",
                subject=pattern,
                message=f"is held with a ttl of {duration(round(ttl))}: so long a holder that "
                "died keeps others out",
                remedy=LOOK_CLOSER,
            )
            for pattern, ttl in longest.items()
            if ttl >= LONG_HOLD_SECONDS
        ),
        *(
            Finding(
                level="note",
                subject=pattern,
                message=f"{waiting} wait in one line",
                remedy=LOOK_CLOSER,
            )
            for pattern, waiting in crowds.items()
            if waiting >= LONG_LINE
        ),
    )


# Hold and wait times from repeated samples of a store, with pure functions and values.
#
# A hold that ends between two samples lasted at least until the first sample and at most until the
# second; the longer time is counted. A hold shorter than the interval is seen only by chance. So
# the durations here are upper bounds, and the numbers of holds and waits are lower bounds. How
# often a name is held and how many claims wait for it are estimates, not bounds.

SAMPLED_NAMES_MAX: Final = 10_000
"""Maximum number of names that are tracked; further names are left out."""
ENDED_MAX: Final = 100_000
"""Maximum number of ended holds, and of ended waits, whose durations are kept."""
SAME_TTL_FRACTION: Final = 0.02
"""Relative difference up to which two ttls count as one."""
KINDS: Final = {1: "lock", ALL: "rwlock"}


class NameSeen:
    """What all samples together showed about one name."""

    __slots__ = ("held", "holders", "in_line", "kind", "waited_for")

    def __init__(self, capacity: int) -> None:
        self.kind: str = KINDS.get(capacity, "semaphore")
        self.held: int = 0
        self.holders: int = 0
        self.in_line: int = 0
        self.waited_for: int = 0

    def as_busiest(self, name: str, *, looks: int) -> Busiest:
        """Return these counts as a `Busiest`."""
        return Busiest(
            name=name,
            acquired=self.holders,
            stood_in_line=round(self.holders * self.waited_for / looks),
            line=self.in_line / looks,
            in_use=self.held / looks,
        )


class StoreSampling:
    """Tracks which holds and waits begin and end between repeated samples of a store."""

    def __init__(self) -> None:
        self.looks: int = 0
        self._first_at = self._last_at = 0.0
        self._names: dict[str, NameSeen] = {}
        self._holding: dict[tuple[str, object], HoldSample] = {}
        self._waiting: dict[tuple[str, str], HoldSample] = {}
        self._ended: list[tuple[str, HoldSample, float | None]] = []
        self._waits: list[tuple[str, float]] = []

    def look(self, seen: Iterable[Inspection], *, at: float) -> None:
        """Record a sample of the store, taken at that time on a monotonic clock."""
        if not self.looks:
            self._first_at = at
        self.looks += 1
        self._last_at = at
        holding: dict[tuple[str, object], HoldSample] = {}
        waiting: dict[tuple[str, str], HoldSample] = {}
        for one in seen:
            name = self._names.get(one.name)
            if name is None:
                if len(self._names) >= SAMPLED_NAMES_MAX:
                    continue
                name = self._names[one.name] = NameSeen(one.capacity)
            name.held += bool(one.holders)
            name.in_line += len(one.line)
            name.waited_for += bool(one.line)
            for holder in one.holders:
                key = (one.name, _identity(holder))
                name.holders += key not in self._holding
                holding[key] = _seen(
                    self._holding.get(key), at=at, age=holder.age, left=holder.remaining
                )
            for waiter in one.line:
                waiter_key = (one.name, waiter.owner.to_text())
                waiting[waiter_key] = _seen(
                    self._waiting.get(waiter_key), at=at, age=waiter.age, left=None
                )
        self._advance(holding, waiting, at=at)

    def _advance(
        self,
        holding: dict[tuple[str, object], HoldSample],
        waiting: dict[tuple[str, str], HoldSample],
        *,
        at: float,
    ) -> None:
        if len(self._ended) < ENDED_MAX:
            gone = self._holding.keys() - holding.keys()
            self._ended += [(key[0], self._holding[key], at) for key in gone]
        if len(self._waits) < ENDED_MAX:
            left = self._waiting.keys() - waiting.keys()
            self._waits += [(key[0], self._waiting[key].ended(by=at)) for key in left]
        self._holding, self._waiting = holding, waiting

    @property
    def seconds(self) -> float:
        """Time from the first sample to the last."""
        return self._last_at - self._first_at

    def figures(self) -> tuple[Figures, ...]:
        """Return the figures so far, starting with those that have the most holds."""
        holds = self._ended + [(name, one, None) for (name, _), one in self._holding.items()]
        # Start with the holds whose ttl is known, because the other holds most likely have the same
        # ttl.
        holds.sort(key=lambda one: one[1].ttl is None)
        tallies: dict[str, dict[float, Tally]] = {}
        longest: dict[str, float] = {}
        for name, sample, by in holds:
            pattern = pattern_of(name)
            tally = self._tally(tallies.setdefault(pattern, {}), name, sample)
            if by is None:
                longest[pattern] = max(longest.get(pattern, 0.0), sample.last_age)
            elif sample.is_unrenewed and sample.has_run_out(by=by):
                tally.lost("expired")
            else:
                tally.released(name, sample.ended(by=by))
        for name, waited in self._waits:
            for tally in tallies.get(pattern_of(name), {}).values():
                tally.waits.add(waited)
        found = [
            self._finished(tally, longest.get(pattern, 0.0))
            for pattern, by_ttl in tallies.items()
            for tally in by_ttl.values()
        ]
        return tuple(sorted(found, key=lambda one: (-one.holds.count, one.pattern, one.ttl)))

    def _tally(self, known: dict[float, Tally], name: str, sample: HoldSample) -> Tally:
        ttl = _ttl(sample, known)
        tally = known.get(ttl)
        if tally is None:
            kind = self._names[name].kind
            tally = known[ttl] = Tally(pattern_of(name), ttl=ttl, renews=True, kind=kind)
        if sample.is_unrenewed:
            tally.renews = False
        if sample.renewals and sample.least_left is not None:
            tally.renewed(sample.least_left)
            tally.renewals += sample.renewals - 1
            tally.at_risk += sample.least_left < at_risk_seconds(ttl)
        return tally

    def _finished(self, tally: Tally, longest: float) -> Figures:
        figures = tally.figures(seconds=self.seconds, source="looks")
        names = {
            name: one
            for name, one in self._names.items()
            if one.waited_for and pattern_of(name) == tally.pattern
        }
        busiest = max(names, key=lambda one: names[one].in_line, default=None)
        usual = left_at_renewal_seconds(tally.ttl)
        return replace(
            figures,
            # A hold that has not ended is not counted, but it may explain how long other claims
            # wait.
            holds=replace(figures.holds, longest=max(figures.holds.longest, longest)),
            usual_margin=None if figures.least_margin is None else usual,
            interval=self.seconds / max(1, self.looks - 1),
            busiest=(
                names[busiest].as_busiest(busiest, looks=self.looks)
                if busiest is not None
                else None
            ),
        )


def _ttl(sample: HoldSample, known: Iterable[float]) -> float:
    """Return the ttl, to a tenth of a second; 0 if it cannot be known."""
    if sample.ttl is not None:
        # A busy store may report the age and the time left for slightly different moments.
        alike = [one for one in known if abs(one - sample.ttl) <= max(0.1, one * SAME_TTL_FRACTION)]
        return alike[0] if alike else round(sample.ttl, 1)
    longer = [one for one in known if one >= sample.most_left - SLACK_SECONDS]
    if longer:
        return min(longer)
    return 0.0 if sample.in_window else float(round(sample.most_left))


def _seen(known: HoldSample | None, *, at: float, age: float, left: float | None) -> HoldSample:
    if known is None:
        return HoldSample(at=at, age=age, left=left)
    known.again(at=at, age=age, left=left)
    return known


def _identity(holder: Holder) -> object:
    # An owner that acquires again gets another token. Some stores have no tokens, so use the owner
    # there.
    return holder.owner.to_text() if holder.token is None else holder.token
