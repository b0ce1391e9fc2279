"""Spans and metrics for OpenTelemetry."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Status, StatusCode

from lockfast.core.event_notes import EventObserver, NoteSink, dispatch
from lockfast.observe.patterns import ByPattern
from lockfast.runtime import fork

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from lockfast.core.event_notes import ClientSnapshot, EventNote
    from lockfast.events import LossReason, StoreRequest, StoreTrouble, WithdrawalReason
    from lockfast.model import Claim
    from lockfast.observe.patterns import Labels


# OpenTelemetry metrics, recorded with as few calls as possible, because each call costs several
# microseconds.
#
# So changes to counters are first summed up, over all notes that are delivered together.


class OtelAttributes:
    """The OpenTelemetry attributes for one pattern, created once."""

    def __init__(self, labels: Labels) -> None:
        self.labels: Mapping[str, str] = {
            "lockfast.pattern": labels.pattern,
            "lockfast.kind": labels.kind,
            "lockfast.store": labels.store,
        }
        self._with: dict[tuple[str, str], Mapping[str, str]] = {}

    def with_(self, key: str, value: str) -> Mapping[str, str]:
        """Return the attributes with one more, which must have few values, as each is kept."""
        found = self._with.get((key, value))
        if found is None:
            found = self._with[key, value] = {**self.labels, key: value}
        return found

    def with_outcome(self, outcome: str) -> Mapping[str, str]:
        """Return the attributes and the outcome of an acquire."""
        return self.with_("lockfast.outcome", outcome)


class OtelSums:
    """Changes to the counters, summed up over all notes that are delivered together."""

    def __init__(self, figures: OtelFigures) -> None:
        self._figures = figures
        self.acquisitions: Counter[tuple[OtelAttributes, str]] = Counter()
        self.lost: Counter[tuple[OtelAttributes, str]] = Counter()
        self.held: Counter[OtelAttributes] = Counter()
        self.waiters: Counter[OtelAttributes] = Counter()

    def flush(self) -> None:
        """Add the sums to the counters."""
        figures = self._figures
        for (about, outcome), count in self.acquisitions.items():
            figures.acquisitions.add(count, about.with_outcome(outcome))
        for (about, reason), count in self.lost.items():
            figures.lost.add(count, about.with_("lockfast.reason", reason))
        for about, change in self.held.items():
            figures.held.add(change, about.labels)
        for about, change in self.waiters.items():
            figures.waiters.add(change, about.labels)


class OtelFigures:
    """The instruments, created once."""

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


# Spans and metrics for OpenTelemetry: a span around each wait, and one around each hold.
#
# Both spans are children of the span that was current where the lock was requested. They are
# created after the fact, with the times of the events, so no span of the body is a child of the
# span around the hold.

SCOPE = "lockfast"


class OpenTelemetryHook(NoteSink):
    """A hook that creates spans and records metrics; it may serve several clients."""

    captures: ClassVar[bool] = True

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None,
        meter_provider: metrics.MeterProvider | None,
        raw_names: bool,
    ) -> None:
        self._state = OtelState(
            trace.get_tracer(SCOPE, tracer_provider=tracer_provider),
            OtelFigures(metrics.get_meter(SCOPE, meter_provider=meter_provider)),
            ByPattern(OtelAttributes, raw_names=raw_names),
        )
        fork.reset_in_child(self)

    def capture(self) -> Context:
        """Return the current context, whose span becomes the parent of ours."""
        return context.get_current()

    def take(self, notes: Sequence[EventNote], owner: str, store: str) -> None:
        """Record a batch of notes."""
        del owner
        update = OtelUpdate(self._state, store)
        try:
            for note in notes:
                dispatch(note, update)
        finally:
            update.sums.flush()

    def set_right(self, snapshot: ClientSnapshot, store: str) -> None:
        """Replace what is known about the holds and waits of a client with this snapshot."""
        update = OtelUpdate(self._state, store)
        update.set_right(snapshot)
        update.sums.flush()

    def after_fork_in_child(self) -> None:
        """Start over in the child, because the open spans belong to the parent."""
        self._state.holds, self._state.waiting = {}, {}


class OtelState:
    """What is kept from one batch of notes to the next."""

    def __init__(
        self, tracer: trace.Tracer, figures: OtelFigures, kept: ByPattern[OtelAttributes]
    ) -> None:
        self.tracer: trace.Tracer = tracer
        self.figures: OtelFigures = figures
        self.kept: ByPattern[OtelAttributes] = kept
        self.holds: dict[str, HeldSpan] = {}
        """The open spans, by claim id."""
        self.waiting: dict[str, tuple[OtelAttributes, str]] = {}
        """The waiting claims by id, each with its attributes and its client."""


class OtelUpdate(EventObserver):
    """Records one batch of notes, which come from one store."""

    def __init__(self, state: OtelState, store: str) -> None:
        self._state = state
        self._store = store
        self.sums: OtelSums = OtelSums(state.figures)

    def set_right(self, snapshot: ClientSnapshot) -> None:
        """Replace the holds and waits of a client; a claim missing in the snapshot has ended."""
        client, state, sums = snapshot.client, self._state, self.sums
        held = {one.id: one for one in snapshot.held}
        waiting = {one.id: one for one in snapshot.waiting}
        for claim, known in list(state.holds.items()):
            if known.client == client and claim not in held:
                state.holds.pop(claim, None)
                sums.held[known.about] -= 1
                if known.span is not None:
                    known.span.end()
        for claim, (about, owner_client) in list(state.waiting.items()):
            if owner_client == client and claim not in waiting:
                state.waiting.pop(claim, None)
                sums.waiters[about] -= 1
        for claim in held.keys() - state.holds.keys():
            about = self._about(held[claim])
            state.holds[claim] = HeldSpan(None, about, client)
            sums.held[about] += 1
        for claim in waiting.keys() - state.waiting.keys():
            self._begin_waiting(waiting[claim], client)

    # -- what happens ------------------------------------------------------------------

    def waiting(self, note: EventNote, /, *_facts: object) -> None:
        """Count a waiter."""
        self._begin_waiting(note.claim, note.claim.client)

    def acquired(self, note: EventNote, waited: float, /, *_facts: object) -> None:
        """End the wait, and begin a span for the hold."""
        self._end_waiting(note, waited, "acquired")
        claim, holds = note.claim, self._state.holds
        about = self._about(claim)
        self.sums.held[about] += claim.id not in holds  # a snapshot may have counted it
        token, labels = note.token, about.labels
        span = self._state.tracer.start_span(
            "lockfast hold",
            _around(note),
            attributes=labels if token is None else {**labels, "lockfast.token": token},
            start_time=_nanoseconds(note.at),
        )
        holds[claim.id] = HeldSpan(span, about, claim.client)

    def timed_out(self, note: EventNote, waited: float, /, *_facts: object) -> None:
        """End the wait."""
        self._end_waiting(note, waited, "timed_out")

    def withdrawn(self, note: EventNote, waited: float, reason: WithdrawalReason, /) -> None:
        """End the wait."""
        self._end_waiting(note, waited, reason)

    def skipped(self, note: EventNote, /) -> None:
        """Count the outcome."""
        self.sums.acquisitions[self._about(note.claim), "skipped"] += 1

    def released(self, note: EventNote, held: float, /) -> None:
        """End the hold."""
        self._end_hold(note, held)

    detached = released

    def lost(self, note: EventNote, reason: LossReason, held: float, _cause: str, /) -> None:
        """Count the loss, and end the hold."""
        self.sums.lost[self._about(note.claim), reason] += 1
        self._end_hold(note, held, lost=reason)

    def renewed(self, note: EventNote, margin: float, /) -> None:
        """Record the margin."""
        self._state.figures.margin.record(margin, self._about(note.claim).labels)

    def at_risk(self, note: EventNote, remaining: float, /) -> None:
        """Add an event to the span of the hold."""
        self._add_to_span(note, "at risk", remaining)

    def safe_again(self, note: EventNote, remaining: float, /) -> None:
        """Add an event to the span of the hold."""
        self._add_to_span(note, "safe again", remaining)

    def store_error(
        self, _note: EventNote, request: StoreRequest, reason: StoreTrouble, _message: str, /
    ) -> None:
        """Count the error."""
        about = {
            "lockfast.store": self._store,
            "lockfast.request": request,
            "lockfast.reason": reason,
        }
        self._state.figures.errors.add(1, about)

    def reconnected(self, _note: EventNote, /, *_facts: object) -> None:
        """Count the reconnect."""
        self._state.figures.reconnects.add(1, {"lockfast.store": self._store})

    # -- parts -------------------------------------------------------------------------

    def _about(self, claim: Claim) -> OtelAttributes:
        return self._state.kept.of_claim(claim, self._store)

    def _begin_waiting(self, claim: Claim, client: str) -> None:
        about, waiting = self._about(claim), self._state.waiting
        self.sums.waiters[about] += claim.id not in waiting  # a snapshot may have counted it
        waiting[claim.id] = (about, client)

    def _end_waiting(self, note: EventNote, waited: float, outcome: str) -> None:
        about, state = self._about(note.claim), self._state
        if state.waiting.pop(note.claim.id, None) is not None:
            self.sums.waiters[about] -= 1
        if outcome == "replaced":  # the same acquire goes on
            return
        self.sums.acquisitions[about, outcome] += 1
        state.figures.wait.record(waited, about.labels)
        span = state.tracer.start_span(
            "lockfast wait",
            _around(note),
            attributes=about.with_outcome(outcome),
            start_time=_nanoseconds(note.at - waited),
        )
        if outcome != "acquired":
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end(_nanoseconds(note.at))

    def _end_hold(self, note: EventNote, held: float, *, lost: str = "") -> None:
        about = self._about(note.claim)
        known = self._state.holds.pop(note.claim.id, None)
        self._state.figures.hold.record(held, about.labels)
        if known is None:
            return  # a snapshot has already counted the end
        self.sums.held[about] -= 1
        if known.span is None:
            return
        if lost:
            known.span.set_attribute("lockfast.reason", lost)
            known.span.set_status(Status(StatusCode.ERROR, f"lost: {lost}"))
        known.span.end(_nanoseconds(note.at))

    def _add_to_span(self, note: EventNote, name: str, remaining: float) -> None:
        known = self._state.holds.get(note.claim.id)
        if known is not None and known.span is not None:
            about = {"lockfast.remaining": remaining}
            known.span.add_event(name, about, timestamp=_nanoseconds(note.at))


class HeldSpan(NamedTuple):
    """The span of a lease (None if its beginning was missed), with its attributes and client."""

    span: Span | None
    about: OtelAttributes
    client: str


def _around(note: EventNote) -> Context | None:
    return note.captured if isinstance(note.captured, context.Context) else None


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)
