"""The figures in Prometheus' own form; its client library asks for them at each scrape."""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Final, get_args

from prometheus_client import REGISTRY
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

from lockfast.errors import ConfigurationError
from lockfast.events import LossReason
from lockfast.observe.by_pattern import Labels
from lockfast.observe.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from lockfast.observe.series import Histogram, Series

LABELS: Final = list(Labels._fields)
REASONS: Final = get_args(LossReason)

_making = threading.Lock()
_made: weakref.WeakKeyDictionary[CollectorRegistry, PrometheusMetrics] = weakref.WeakKeyDictionary()
"""One for each registry: a name can be registered there only once."""


def in_registry(registry: CollectorRegistry | None, *, raw_names: bool) -> PrometheusMetrics:
    """Return the hook whose figures this registry tells; the same one each time."""
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
    """A hook that counts, and a collector that tells what was counted."""

    def collect(self) -> Iterator[Metric]:
        """Return every figure; called by the registry, on whichever thread scrapes."""
        with self.lock:
            series = list(self.series.values())
            found = [
                *self._counters(series),
                *_gauges(series),
                *_histograms(series),
                *self._of_stores(),
            ]
        yield from found

    def _counters(self, series: list[Series]) -> Iterator[Metric]:
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
            for reason in REASONS:  # from nought on: else the first is no increase
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


def _gauges(series: list[Series]) -> Iterator[Metric]:
    now = time.monotonic()
    figures: tuple[tuple[str, str, Callable[[Series], float]], ...] = (
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


def _histograms(series: list[Series]) -> Iterator[Metric]:
    figures: tuple[tuple[str, str, Callable[[Series], Histogram]], ...] = (
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
            family.add_metric(one.labels, buckets=found.cumulated(), sum_value=found.total)
        yield family
