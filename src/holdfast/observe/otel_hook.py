"""Spans and metrics for OpenTelemetry: a span around each wait, one around each hold.

Both are children of the span that was current where the lock was asked for. They are made beside
the work, with the times at which it happened; so no span of the body is a child of the hold's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Status, StatusCode

from holdfast.core.telling import Sink, event_of
from holdfast.events import (
    Acquired,
    AtRisk,
    Detached,
    Event,
    Lost,
    Reconnected,
    Released,
    Renewed,
    SafeAgain,
    Skipped,
    StoreError,
    TimedOut,
    Waiting,
    Withdrawn,
)
from holdfast.observe.patterns import Patterns
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from holdfast.core.telling import Note

SCOPE = "holdfast"


class OpenTelemetryHook(Sink):
    """A hook that makes spans and records metrics; one may serve several clients."""

    captures: ClassVar[bool] = True

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
        raw_names: bool,
    ) -> None:
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        self._figures = Figures(metrics.get_meter(SCOPE, meter_provider=meter_provider))
        self._raw_names = raw_names
        self._patterns = Patterns()
        self._holds: dict[str, Span] = {}
        self._waiting: set[str] = set()
        forking.forget_in_child(self)

    def capture(self) -> Context:
        """Return the context of the moment, whose span is the parent of ours."""
        return context.get_current()

    def take(self, notes: Sequence[Note], owner: str, store: str) -> None:
        """Tell of what has happened."""
        for note in notes:
            self._tell(event_of(note, owner=owner, store=store), note[5])

    def __call__(self, event: Event) -> None:
        """Tell of an event; its span has no parent."""
        self._tell(event, None)

    def after_fork_in_child(self) -> None:
        """Start anew: the parent's spans are the parent's."""
        self._holds, self._waiting = {}, set()

    # -- what happens ------------------------------------------------------------------

    def _tell(self, event: Event, parent: object) -> None:
        labels = {
            "holdfast.pattern": event.name if self._raw_names else self._patterns.of(event.name),
            "holdfast.kind": event.kind,
            "holdfast.store": event.store,
        }
        around = parent if isinstance(parent, context.Context) else None
        match event:
            case Waiting():
                self._waiting.add(event.claim)
                self._figures.waiters.add(1, labels)
            case Acquired():
                self._ends_waiting(event, labels, event.waited, "acquired", around)
                self._begins_hold(event, labels, around)
            case TimedOut():
                self._ends_waiting(event, labels, event.waited, "timed_out", around)
            case Withdrawn():
                self._ends_waiting(event, labels, event.waited, event.reason, around)
            case Skipped():
                self._figures.acquisitions.add(1, {**labels, "holdfast.outcome": "skipped"})
            case Released() | Detached():
                self._ends_hold(event, labels, event.held)
            case Lost():
                self._figures.lost.add(1, {**labels, "holdfast.reason": event.reason})
                self._ends_hold(event, labels, event.held, lost=event.reason)
            case Renewed():
                self._figures.margin.record(event.margin, labels)
            case _:
                self._tell_trouble(event)

    def _tell_trouble(self, event: Event) -> None:
        match event:
            case AtRisk() | SafeAgain():
                self._notes(event)
            case StoreError():
                about = {"holdfast.request": event.request, "holdfast.reason": event.reason}
                self._figures.errors.add(1, {"holdfast.store": event.store, **about})
            case Reconnected():
                self._figures.reconnects.add(1, {"holdfast.store": event.store})

    def _ends_waiting(
        self,
        event: Event,
        labels: Mapping[str, str],
        waited: float,
        outcome: str,
        around: Context | None,
    ) -> None:
        if event.claim in self._waiting:
            self._waiting.discard(event.claim)
            self._figures.waiters.add(-1, labels)
        if outcome == "replaced":  # the same acquire goes on
            return
        told = {**labels, "holdfast.outcome": outcome}
        self._figures.acquisitions.add(1, told)
        self._figures.wait.record(waited, labels)
        span = self._tracer.start_span(
            "holdfast wait", around, attributes=told, start_time=_nanoseconds(event.at - waited)
        )
        if outcome != "acquired":
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end(_nanoseconds(event.at))

    def _begins_hold(self, event: Event, labels: Mapping[str, str], around: Context | None) -> None:
        token: dict[str, Any] = {} if event.token is None else {"holdfast.token": event.token}
        self._figures.held.add(1, labels)
        self._holds[event.claim] = self._tracer.start_span(
            "holdfast hold",
            around,
            attributes={**labels, **token},
            start_time=_nanoseconds(event.at),
        )

    def _ends_hold(
        self, event: Event, labels: Mapping[str, str], held: float, *, lost: str = ""
    ) -> None:
        span = self._holds.pop(event.claim, None)
        if span is None:
            return
        self._figures.held.add(-1, labels)
        self._figures.hold.record(held, labels)
        if lost:
            span.set_attribute("holdfast.reason", lost)
            span.set_status(Status(StatusCode.ERROR, f"lost: {lost}"))
        span.end(_nanoseconds(event.at))

    def _notes(self, event: AtRisk | SafeAgain) -> None:
        span = self._holds.get(event.claim)
        if span is not None:
            name = "at risk" if isinstance(event, AtRisk) else "safe again"
            about = {"holdfast.remaining": event.remaining}
            span.add_event(name, about, timestamp=_nanoseconds(event.at))


class Figures:
    """The instruments, made once."""

    def __init__(self, meter: metrics.Meter) -> None:
        self.acquisitions: metrics.Counter = meter.create_counter(
            "holdfast.acquisitions", description="Acquires that ended, by outcome."
        )
        self.lost: metrics.Counter = meter.create_counter(
            "holdfast.leases.lost", description="Leases that were lost, by reason."
        )
        self.held: metrics.UpDownCounter = meter.create_up_down_counter(
            "holdfast.leases.held", description="Leases that this process holds."
        )
        self.waiters: metrics.UpDownCounter = meter.create_up_down_counter(
            "holdfast.waiters", description="Acquires of this process that stand in line."
        )
        self.wait: metrics.Histogram = meter.create_histogram(
            "holdfast.wait", unit="s", description="How long acquires took, whatever ended them."
        )
        self.hold: metrics.Histogram = meter.create_histogram(
            "holdfast.hold", unit="s", description="How long leases were held."
        )
        self.margin: metrics.Histogram = meter.create_histogram(
            "holdfast.renewal.margin",
            unit="s",
            description="How long a lease still had to run when its renewal was answered.",
        )
        self.errors: metrics.Counter = meter.create_counter(
            "holdfast.store.errors", description="Requests to the store that failed."
        )
        self.reconnects: metrics.Counter = meter.create_counter(
            "holdfast.store.reconnects", description="Times that the store answered again."
        )


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)
