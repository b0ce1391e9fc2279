"""Spans and metrics for OpenTelemetry: a span around each wait, one around each hold.

Both are children of the span that was current where the lock was asked for. They are made beside
the work, with the times at which it happened; so no span of the body is a child of the hold's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

from opentelemetry import context, metrics, trace
from opentelemetry.trace import Status, StatusCode

from lockfast.core.telling import FACTS, Sink, own_fields
from lockfast.events import (
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
from lockfast.observe.by_pattern import ByPattern
from lockfast.observe.otel_figures import About, Figures, Sums
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from lockfast.core.telling import Note, Standing
    from lockfast.model import Claim

SCOPE = "lockfast"


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
        self._kept: ByPattern[About] = ByPattern(About, raw_names=raw_names)
        self._holds: dict[str, Held] = {}
        self._waiting: dict[str, tuple[About, str]] = {}
        """The claims that wait, by id, and of which client."""
        self._acts: dict[type[Event], Callable[[Told, Note, Sums], None]] = {
            Waiting: self._waits,
            Acquired: self._acquired,
            TimedOut: self._timed_out,
            Withdrawn: self._withdrawn,
            Skipped: self._skipped,
            Released: self._released,
            Detached: self._released,
            Lost: self._lost,
            Renewed: self._renewed,
            AtRisk: self._notes,
            SafeAgain: self._notes,
        }
        forking.forget_in_child(self)

    def capture(self) -> Context:
        """Return the context of the moment, whose span is the parent of ours."""
        return context.get_current()

    def take(self, notes: Sequence[Note], owner: str, store: str) -> None:
        """Tell of what has happened."""
        del owner
        sums = Sums(self._figures)
        try:
            for note in notes:
                claim: Claim | None = note[1]
                act = self._acts.get(note[0])
                if act is None or claim is None:
                    self._tell_store(note, store)
                else:
                    about = self._kept.of_claim(claim, store)
                    act(Told(claim.id, claim.client, about), note, sums)
        finally:
            sums.tell()

    def __call__(self, event: Event) -> None:
        """Tell of an event; its span has no parent."""
        facts = [getattr(event, one) for one in own_fields(event)]
        note = (type(event), None, event.token, event.at, None, *facts)
        act = self._acts.get(type(event))
        if act is None:
            self._tell_store(note, event.store)
            return
        sums = Sums(self._figures)
        about = self._kept.of(event.name, event.kind, event.store)
        act(Told(event.claim, "", about), note, sums)
        sums.tell()

    def set_right(self, standing: Standing, store: str) -> None:
        """Take what holds and waits now for what is held and waited for; of others the end."""
        client, sums = standing.client, Sums(self._figures)
        held = {one.id: one for one in standing.held}
        waiting = {one.id: one for one in standing.waiting}
        for claim, known in list(self._holds.items()):
            if known.client == client and claim not in held:
                self._holds.pop(claim, None)
                sums.held[known.about] -= 1
                if known.span is not None:
                    known.span.end()
        for claim, (about, whose) in list(self._waiting.items()):
            if whose == client and claim not in waiting:
                self._waiting.pop(claim, None)
                sums.waiters[about] -= 1
        for claim in held.keys() - self._holds.keys():
            about = self._kept.of_claim(held[claim], store)
            self._holds[claim] = Held(None, about, client)
            sums.held[about] += 1
        for claim in waiting.keys() - self._waiting.keys():
            about = self._kept.of_claim(waiting[claim], store)
            self._waits(Told(claim, client, about), (), sums)
        sums.tell()

    def after_fork_in_child(self) -> None:
        """Start anew: the parent's spans are the parent's."""
        self._holds, self._waiting = {}, {}

    # -- what happens ------------------------------------------------------------------

    def _waits(self, told: Told, _note: Note, sums: Sums) -> None:
        sums.waiters[told.about] += told.claim not in self._waiting  # as below
        self._waiting[told.claim] = (told.about, told.client)

    def _acquired(self, told: Told, note: Note, sums: Sums) -> None:
        self._ends_waiting(told, note, "acquired", sums)
        sums.held[told.about] += told.claim not in self._holds  # as below, in `_ends_hold`
        token, labels = note[2], told.about.labels
        span = self._tracer.start_span(
            "lockfast hold",
            _around(note),
            attributes=labels if token is None else {**labels, "lockfast.token": token},
            start_time=_nanoseconds(note[3]),
        )
        self._holds[told.claim] = Held(span, told.about, told.client)

    def _timed_out(self, told: Told, note: Note, sums: Sums) -> None:
        self._ends_waiting(told, note, "timed_out", sums)

    def _withdrawn(self, told: Told, note: Note, sums: Sums) -> None:
        self._ends_waiting(told, note, note[FACTS + 1], sums)

    def _skipped(self, told: Told, _note: Note, sums: Sums) -> None:
        sums.acquisitions[told.about, "skipped"] += 1

    def _released(self, told: Told, note: Note, sums: Sums) -> None:
        self._ends_hold(told, note, note[FACTS], sums)

    def _lost(self, told: Told, note: Note, sums: Sums) -> None:
        reason, held = note[FACTS : FACTS + 2]
        sums.lost[told.about, reason] += 1
        self._ends_hold(told, note, held, sums, lost=reason)

    def _renewed(self, told: Told, note: Note, _sums: Sums) -> None:
        self._figures.margin.record(note[FACTS], told.about.labels)

    def _notes(self, told: Told, note: Note, _sums: Sums) -> None:
        known = self._holds.get(told.claim)
        if known is not None and known.span is not None:
            name = "at risk" if note[0] is AtRisk else "safe again"
            about = {"lockfast.remaining": note[FACTS]}
            known.span.add_event(name, about, timestamp=_nanoseconds(note[3]))

    def _tell_store(self, note: Note, store: str) -> None:
        labels = {"lockfast.store": store}
        if note[0] is StoreError:
            request, reason = note[FACTS : FACTS + 2]
            about = {**labels, "lockfast.request": request, "lockfast.reason": reason}
            self._figures.errors.add(1, about)
        elif note[0] is Reconnected:
            self._figures.reconnects.add(1, labels)

    def _ends_waiting(self, told: Told, note: Note, outcome: str, sums: Sums) -> None:
        about, waited = told.about, note[FACTS]
        if self._waiting.pop(told.claim, None) is not None:
            sums.waiters[about] -= 1
        if outcome == "replaced":  # the same acquire goes on
            return
        sums.acquisitions[about, outcome] += 1
        self._figures.wait.record(waited, about.labels)
        span = self._tracer.start_span(
            "lockfast wait",
            _around(note),
            attributes=about.with_outcome(outcome),
            start_time=_nanoseconds(note[3] - waited),
        )
        if outcome != "acquired":
            span.set_status(Status(StatusCode.ERROR, outcome))
        span.end(_nanoseconds(note[3]))

    def _ends_hold(
        self, told: Told, note: Note, held: float, sums: Sums, *, lost: str = ""
    ) -> None:
        known = self._holds.pop(told.claim, None)
        self._figures.hold.record(held, told.about.labels)
        if known is None:
            return  # counted before, by how things stood
        sums.held[told.about] -= 1
        if known.span is None:
            return
        if lost:
            known.span.set_attribute("lockfast.reason", lost)
            known.span.set_status(Status(StatusCode.ERROR, f"lost: {lost}"))
        known.span.end(_nanoseconds(note[3]))


class Told(NamedTuple):
    """Of what a note tells: which claim, of which client, with which attributes."""

    claim: str
    client: str
    about: About


class Held(NamedTuple):
    """What is known of a lease: its span, unless its beginning was not heard of."""

    span: Span | None
    about: About
    client: str


def _around(note: Note) -> Context | None:
    return note[4] if isinstance(note[4], context.Context) else None


def _nanoseconds(at: float) -> int:
    return int(at * 1e9)
