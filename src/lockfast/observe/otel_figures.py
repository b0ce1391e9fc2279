"""The metrics of OpenTelemetry, told with as few calls as can be: each costs several microseconds.

What is only added up is added up here first, for all that is delivered together.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry import metrics

    from lockfast.observe.by_pattern import Labels


class About:
    """The attributes of what concerns one pattern, made once."""

    def __init__(self, labels: Labels) -> None:
        self.labels: Mapping[str, str] = {
            "lockfast.pattern": labels.pattern,
            "lockfast.kind": labels.kind,
            "lockfast.store": labels.store,
        }
        self._with: dict[tuple[str, str], Mapping[str, str]] = {}

    def with_(self, key: str, value: str) -> Mapping[str, str]:
        """Return them with one more; of a closed set of words, since each is kept."""
        found = self._with.get((key, value))
        if found is None:
            found = self._with[key, value] = {**self.labels, key: value}
        return found

    def with_outcome(self, outcome: str) -> Mapping[str, str]:
        """Return them, and how an acquire ended."""
        return self.with_("lockfast.outcome", outcome)


class Sums:
    """What is to be added to counters, of all that is delivered together."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self.acquisitions: Counter[tuple[About, str]] = Counter()
        self.lost: Counter[tuple[About, str]] = Counter()
        self.held: Counter[About] = Counter()
        self.waiters: Counter[About] = Counter()

    def tell(self) -> None:
        """Add it."""
        figures = self._figures
        for (about, outcome), count in self.acquisitions.items():
            figures.acquisitions.add(count, about.with_outcome(outcome))
        for (about, reason), count in self.lost.items():
            figures.lost.add(count, about.with_("lockfast.reason", reason))
        for about, change in self.held.items():
            figures.held.add(change, about.labels)
        for about, change in self.waiters.items():
            figures.waiters.add(change, about.labels)


class Figures:
    """The instruments, made once."""

    def __init__(self, meter: metrics.Meter) -> None:
        self.acquisitions: metrics.Counter = meter.create_counter(
            "lockfast.acquisitions", description="Acquires that ended, by outcome."
        )
        self.lost: metrics.Counter = meter.create_counter(
            "lockfast.leases.lost", description="Leases that were lost, by reason."
        )
        self.held: metrics.UpDownCounter = meter.create_up_down_counter(
            "lockfast.leases.held", description="Leases that this process holds."
        )
        self.waiters: metrics.UpDownCounter = meter.create_up_down_counter(
            "lockfast.waiters", description="Acquires of this process that stand in line."
        )
        self.wait: metrics.Histogram = meter.create_histogram(
            "lockfast.wait", unit="s", description="How long acquires took, whatever ended them."
        )
        self.hold: metrics.Histogram = meter.create_histogram(
            "lockfast.hold", unit="s", description="How long leases were held."
        )
        self.margin: metrics.Histogram = meter.create_histogram(
            "lockfast.renewal.margin",
            unit="s",
            description="How long a lease still had to run when its renewal was answered.",
        )
        self.errors: metrics.Counter = meter.create_counter(
            "lockfast.store.errors", description="Requests to the store that failed."
        )
        self.reconnects: metrics.Counter = meter.create_counter(
            "lockfast.store.reconnects", description="Times that the store answered again."
        )
