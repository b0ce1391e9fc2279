"""Figures from what clients tell: acquisitions, waits, holds, losses, how the store fares.

Kept by pattern of names (`order:*`), never by name unless asked, and of a bounded number of
patterns: whoever scrapes pays for each of them for ever.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

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
from lockfast.observe.series import Series
from lockfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from lockfast.core.telling import Note, Standing
    from lockfast.model import Claim
    from lockfast.observe.by_pattern import Labels


class Metrics(Sink):
    """A hook that counts; one may serve several clients, and each process has its own figures."""

    def __init__(self, *, raw_names: bool = False) -> None:
        self.raw_names: bool = raw_names
        # Re-entrant: a signal handler or a finalizer may come back in the middle of it.
        self.lock: AbstractContextManager[bool] = threading.RLock()
        self._start()
        forking.forget_in_child(self)

    def _start(self) -> None:
        self._kept: ByPattern[Series] = ByPattern(Series, raw_names=self.raw_names)
        self.series: dict[Labels, Series] = self._kept.all
        self.store_errors: Counter[tuple[str, str, str]] = Counter()
        """By store, request and reason."""
        self.reconnects: Counter[str] = Counter()
        """By store."""

    def take(self, notes: Sequence[Note], owner: str, store: str) -> None:
        """Count what has happened."""
        del owner
        with self.lock:
            counts, series_of = _COUNTS, self._kept.of_claim
            last = series = None
            for note in notes:
                claim: Claim | None = note[1]
                count = counts.get(note[0])
                if count is None or claim is None:
                    self._count_store(note, store)
                    continue
                if claim is not last or series is None:  # often its end follows its beginning
                    last, series = claim, series_of(claim, store)
                count(series, claim, note)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        facts = [getattr(event, one) for one in own_fields(event)]
        note = (type(event), None, event.token, event.at, None, *facts)
        with self.lock:
            count = _COUNTS.get(type(event))
            if count is None:
                self._count_store(note, event.store)
            else:
                series = self._kept.of(event.name, event.kind, event.store)
                count(series, Told(event.claim), note)

    def set_right(self, standing: Standing, store: str) -> None:
        """Take what holds and waits now for what is held and waited for."""
        client, now = standing.client, time.monotonic()
        with self.lock:
            stand = {one.id for one in (*standing.held, *standing.waiting)}
            for series in self.series.values():
                series.forget(client, beside=stand)
            for one in standing.held:
                self._kept.of_claim(one, store).held[one.id] = client
            for one in standing.waiting:
                self._kept.of_claim(one, store).waiters.setdefault(one.id, (client, now))

    def _count_store(self, note: Note, store: str) -> None:
        if note[0] is StoreError:
            self.store_errors[store, note[FACTS], note[FACTS + 1]] += 1
        elif note[0] is Reconnected:
            self.reconnects[store] += 1

    def after_fork_in_child(self) -> None:
        """Count anew: what the parent holds is counted there."""
        self.lock = threading.RLock()
        self._start()


class Told(NamedTuple):
    """A claim as an event tells of it: of which client it is, only a note says."""

    id: str
    client: str = ""


def _waiting(series: Series, claim: Claim | Told, _note: Note) -> None:
    series.waiters[claim.id] = (claim.client, time.monotonic())


def _acquired(series: Series, claim: Claim | Told, note: Note) -> None:
    if series.waiters:
        series.waiters.pop(claim.id, None)
    series.held[claim.id] = claim.client
    series.outcomes["acquired"] += 1
    series.waits.observe(note[FACTS])


def _timed_out(series: Series, claim: Claim | Told, note: Note) -> None:
    series.waiters.pop(claim.id, None)
    series.outcomes["timed_out"] += 1
    series.waits.observe(note[FACTS])


def _skipped(series: Series, _claim: Claim | Told, _note: Note) -> None:
    series.outcomes["skipped"] += 1


def _withdrawn(series: Series, claim: Claim | Told, note: Note) -> None:
    series.waiters.pop(claim.id, None)
    reason = note[FACTS + 1]
    if reason != "replaced":  # the same acquire goes on
        series.outcomes[reason] += 1


def _ended(series: Series, claim: Claim | Told, note: Note) -> None:
    series.held.pop(claim.id, None)
    series.holds.observe(note[FACTS])


def _lost(series: Series, claim: Claim | Told, note: Note) -> None:
    series.held.pop(claim.id, None)
    series.lost[note[FACTS]] += 1
    series.holds.observe(note[FACTS + 1])


def _renewed(series: Series, _claim: Claim | Told, note: Note) -> None:
    series.margins.observe(note[FACTS])


def _at_risk(series: Series, _claim: Claim | Told, _note: Note) -> None:
    series.at_risk += 1


def _nothing(_series: Series, _claim: Claim | Told, _note: Note) -> None:
    pass


_COUNTS: dict[type[Event], Callable[[Series, Claim | Told, Note], None]] = {
    Waiting: _waiting,
    Acquired: _acquired,
    TimedOut: _timed_out,
    Skipped: _skipped,
    Withdrawn: _withdrawn,
    Released: _ended,
    Detached: _ended,
    Lost: _lost,
    Renewed: _renewed,
    AtRisk: _at_risk,
    SafeAgain: _nothing,
}
