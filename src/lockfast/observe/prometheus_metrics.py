"""The figures as Prometheus metrics, which the registry collects at each scrape."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Final, get_args

from prometheus_client import REGISTRY
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from lockfast.core.event_notes import EventObserver, NoteSink, dispatch
from lockfast.errors import ConfigurationError
from lockfast.events import LossReason
from lockfast.observe.figures import DurationHistogram
from lockfast.observe.patterns import ByPattern, Labels
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from lockfast.core.event_notes import ClientSnapshot, EventNote
    from lockfast.events import StoreRequest, StoreTrouble, WithdrawalReason
    from lockfast.model import Claim

# The figures of one pattern of names.

DURATION_BUCKETS_SECONDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0),
)
"""Bucket bounds for holds and waits, in seconds: from a round trip to half an hour."""

_BUCKET_LABELS: Final = (*map(str, DURATION_BUCKETS_SECONDS), "+Inf")


class MetricSeries:
    """The counts for one pattern, kind and store."""

    __slots__ = (
        "at_risk",
        "held",
        "holds",
        "labels",
        "lost",
        "margins",
        "outcomes",
        "waiters",
        "waits",
    )

    def __init__(self, labels: Labels) -> None:
        self.labels: Labels = labels
        self.outcomes: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.at_risk: int = 0
        self.waits: DurationHistogram = DurationHistogram(DURATION_BUCKETS_SECONDS)
        self.holds: DurationHistogram = DurationHistogram(DURATION_BUCKETS_SECONDS)
        self.margins: DurationHistogram = DurationHistogram(DURATION_BUCKETS_SECONDS)
        self.held: dict[str, str] = {}
        """The client of each claim that holds, by claim id, so that a claim that is reported twice
        counts once.
        """
        self.waiters: dict[str, tuple[str, float]] = {}
        """The client of each waiting claim, and the time at which its wait began on the monotonic
        clock, by claim id.
        """

    def forget(self, client: str, *, keep: Collection[str]) -> None:
        """Drop the claims of a client, except those with these ids."""
        self.held = {
            one: owner_client
            for one, owner_client in self.held.items()
            if owner_client != client or one in keep
        }
        self.waiters = {
            one: known for one, known in self.waiters.items() if known[0] != client or one in keep
        }


# Figures from client events: acquisitions, waits, holds, losses, and failures of the store.
#
# They are kept by pattern of names (`order:*`), or by name on request. The number of patterns is
# limited, because the scraper has to process each pattern for ever.


class Metrics(NoteSink):
    """A hook that counts; it may serve several clients, and each process has its own figures."""

    def __init__(self, *, raw_names: bool = False) -> None:
        self.raw_names: bool = raw_names
        # The lock is re-entrant, because a signal handler or a finalizer may call us in the middle
        # of a call.
        self.lock: AbstractContextManager[bool] = threading.RLock()
        self._start()
        fork.reset_in_child(self)

    def _start(self) -> None:
        self._kept: ByPattern[MetricSeries] = ByPattern(MetricSeries, raw_names=self.raw_names)
        self.series: dict[Labels, MetricSeries] = self._kept.all
        self.store_errors: Counter[tuple[str, str, str]] = Counter()
        """Counts by store, request and reason."""
        self.reconnects: Counter[str] = Counter()
        """Counts by store."""

    def take(self, notes: Sequence[EventNote], owner: str, store: str) -> None:
        """Count a batch of notes."""
        del owner
        with self.lock:
            counting = MetricsUpdate(self._kept, self.store_errors, self.reconnects, store)
            for note in notes:
                dispatch(note, counting)

    def set_right(self, snapshot: ClientSnapshot, store: str) -> None:
        """Replace what is known about the holds and waits of a client with this snapshot."""
        client, now = snapshot.client, time.monotonic()
        with self.lock:
            stand = {one.id for one in (*snapshot.held, *snapshot.waiting)}
            for series in self.series.values():
                series.forget(client, keep=stand)
            for one in snapshot.held:
                self._kept.of_claim(one, store).held[one.id] = client
            for one in snapshot.waiting:
                self._kept.of_claim(one, store).waiters.setdefault(one.id, (client, now))

    def after_fork_in_child(self) -> None:
        """Start from zero in the child, because the parent counts its own holds."""
        self.lock = threading.RLock()
        self._start()


class MetricsUpdate(EventObserver):
    """Counts the notes of one batch, which come from one store."""

    __slots__ = ("_claim", "_errors", "_kept", "_reconnects", "_series", "_store")

    def __init__(
        self,
        kept: ByPattern[MetricSeries],
        errors: Counter[tuple[str, str, str]],
        reconnects: Counter[str],
        store: str,
    ) -> None:
        self._kept = kept
        self._errors = errors
        self._reconnects = reconnects
        self._store = store
        self._claim: Claim | None = None
        self._series: MetricSeries | None = None

    def _series_of(self, claim: Claim) -> MetricSeries:
        # Remember the latest series, because the end of a claim often follows right after its
        # beginning.
        if claim is not self._claim or self._series is None:
            self._claim, self._series = claim, self._kept.of_claim(claim, self._store)
        return self._series

    def waiting(self, note: EventNote, /, *_facts: object) -> None:
        """Count a waiter."""
        claim = note.claim
        self._series_of(claim).waiters[claim.id] = (claim.client, time.monotonic())

    def acquired(self, note: EventNote, waited: float, /, *_facts: object) -> None:
        """Count a lease and its wait."""
        claim = note.claim
        series = self._series_of(claim)
        if series.waiters:
            series.waiters.pop(claim.id, None)
        series.held[claim.id] = claim.client
        series.outcomes["acquired"] += 1
        series.waits.add(waited)

    def timed_out(self, note: EventNote, waited: float, /, *_facts: object) -> None:
        """Count the wait."""
        series = self._series_of(note.claim)
        series.waiters.pop(note.claim.id, None)
        series.outcomes["timed_out"] += 1
        series.waits.add(waited)

    def skipped(self, note: EventNote, /) -> None:
        """Count the outcome."""
        self._series_of(note.claim).outcomes["skipped"] += 1

    def withdrawn(self, note: EventNote, _waited: float, reason: WithdrawalReason, /) -> None:
        """Count the outcome, unless the same acquire goes on."""
        series = self._series_of(note.claim)
        series.waiters.pop(note.claim.id, None)
        if reason != "replaced":
            series.outcomes[reason] += 1

    def released(self, note: EventNote, held: float, /) -> None:
        """Count the hold."""
        series = self._series_of(note.claim)
        series.held.pop(note.claim.id, None)
        series.holds.add(held)

    detached = released

    def lost(self, note: EventNote, reason: LossReason, held: float, _cause: str, /) -> None:
        """Count the loss and the hold."""
        series = self._series_of(note.claim)
        series.held.pop(note.claim.id, None)
        series.lost[reason] += 1
        series.holds.add(held)

    def renewed(self, note: EventNote, margin: float, /) -> None:
        """Count the margin."""
        self._series_of(note.claim).margins.add(margin)

    def at_risk(self, note: EventNote, /, *_facts: object) -> None:
        """Count the risk."""
        self._series_of(note.claim).at_risk += 1

    def safe_again(self, note: EventNote, /, *_facts: object) -> None:
        """Count nothing, but make sure that the series exists, and is exported from now on."""
        self._series_of(note.claim)

    def store_error(
        self, _note: EventNote, request: StoreRequest, reason: StoreTrouble, _message: str, /
    ) -> None:
        """Count the error."""
        self._errors[self._store, request, reason] += 1

    def reconnected(self, _note: EventNote, /, *_facts: object) -> None:
        """Count the reconnect."""
        self._reconnects[self._store] += 1


LABELS: Final = list(Labels._fields)
REASONS: Final = get_args(LossReason)

_making = threading.Lock()
_made: weakref.WeakKeyDictionary[CollectorRegistry, PrometheusMetrics] = weakref.WeakKeyDictionary()
"""One hook for each registry, because a metric name can be registered there only once."""


def in_registry(registry: CollectorRegistry | None, *, raw_names: bool) -> PrometheusMetrics:
    """Return this registry's hook; the first call registers it."""
    registry = REGISTRY if registry is None else registry
    with _making:
        found = _made.get(registry)
        if found is None:
            found = PrometheusMetrics(raw_names=raw_names)
            registry.register(found)
            _made[registry] = found
    if found.raw_names != raw_names:
        raise ConfigurationError(
            f"raw_names={raw_names!r}: this registry has a hook that was made with the other one; "
            "say the same, or give another registry"
        )
    return found


class PrometheusMetrics(Metrics):
    """A hook that counts, and a collector that exports the counts."""

    def collect(self) -> Iterator[Metric]:
        """Yield every metric; the registry calls this on the thread that scrapes."""
        with self.lock:
            series = list(self.series.values())
            found = [
                *self._counters(series),
                *_gauges(series),
                *_histograms(series),
                *self._of_stores(),
            ]
        yield from found

    def _counters(self, series: list[MetricSeries]) -> Iterator[Metric]:
        acquisitions = CounterMetricFamily(
            "lockfast_acquisitions", "Acquires that ended, by outcome.", labels=[*LABELS, "outcome"]
        )
        lost = CounterMetricFamily(
            "lockfast_leases_lost", "Leases that were lost, by reason.", labels=[*LABELS, "reason"]
        )
        at_risk = CounterMetricFamily(
            "lockfast_leases_at_risk",
            "Leases whose renewal was not answered in time.",
            labels=LABELS,
        )
        for one in series:
            for outcome, count in one.outcomes.items():
                acquisitions.add_metric([*one.labels, outcome], count)
            for reason in REASONS:  # export 0 too, or a first loss shows no increase
                lost.add_metric([*one.labels, reason], one.lost[reason])
            at_risk.add_metric(one.labels, one.at_risk)
        yield from (acquisitions, lost, at_risk)

    def _of_stores(self) -> Iterator[Metric]:
        errors = CounterMetricFamily(
            "lockfast_store_errors",
            "Requests to the store that failed, by what was asked and how it failed.",
            labels=["store", "request", "reason"],
        )
        for labels, count in self.store_errors.items():
            errors.add_metric(labels, count)
        reconnects = CounterMetricFamily(
            "lockfast_store_reconnects",
            "Times that the store answered again after a failure.",
            labels=["store"],
        )
        for store, count in self.reconnects.items():
            reconnects.add_metric([store], count)
        yield from (errors, reconnects)


def _gauges(series: list[MetricSeries]) -> Iterator[Metric]:
    now = time.monotonic()
    figures: tuple[tuple[str, str, Callable[[MetricSeries], float]], ...] = (
        ("lockfast_leases_held", "Leases that this process holds.", lambda one: len(one.held)),
        (
            "lockfast_waiters",
            "Acquires of this process that stand in line; the sum of all is the line's length.",
            lambda one: len(one.waiters),
        ),
        (
            "lockfast_longest_wait_seconds",
            "How long the one that waits longest in this process has stood in line by now.",
            lambda one: now - min((since for _, since in one.waiters.values()), default=now),
        ),
    )
    for name, what, figure in figures:
        family = GaugeMetricFamily(name, what, labels=LABELS)
        for one in series:
            family.add_metric(one.labels, figure(one))
        yield family


def _histograms(series: list[MetricSeries]) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[MetricSeries], DurationHistogram]], ...] = (
        (
            "lockfast_wait_seconds",
            "How long acquires took that ended in a lease or a timeout.",
            lambda one: one.waits,
        ),
        ("lockfast_hold_seconds", "How long leases were held.", lambda one: one.holds),
        (
            "lockfast_renewal_margin_seconds",
            "How long a lease still had to run when its renewal was answered.",
            lambda one: one.margins,
        ),
    )
    for name, what, histogram in figures:
        family = HistogramMetricFamily(name, what, labels=LABELS)
        for one in series:
            found = histogram(one)
            buckets = list(zip(_BUCKET_LABELS, found.cumulative(), strict=True))
            family.add_metric(one.labels, buckets=buckets, sum_value=found.total)
        yield family
