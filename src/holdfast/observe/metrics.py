"""Figures from what clients tell: acquisitions, waits, holds, losses, how the store fares.

Kept by pattern of names (`order:*`), never by name unless asked, and of a bounded number of
patterns: whoever scrapes pays for each of them for ever.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from holdfast.core.telling import Sink, kind_of, own_fields
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
from holdfast.observe.series import Labels, Series
from holdfast.runtime import forking

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from holdfast.core.telling import Note

MOST_NAMES = 4096
"""Of so many names is remembered which series they belong to."""


class Metrics(Sink):
    """A hook that counts; one may serve several clients, and each process has its own figures."""

    def __init__(self, *, raw_names: bool = False) -> None:
        self.raw_names: bool = raw_names
        self._patterns = Patterns()
        # Re-entrant: a signal handler or a finalizer may come back in the middle of it.
        self.lock: AbstractContextManager[bool] = threading.RLock()
        self._by_name: dict[tuple[str, str, int, int], Series] = {}
        self.series: dict[Labels, Series] = {}
        self.store_errors: Counter[tuple[str, str, str]] = Counter()
        """By store, request and reason."""
        self.reconnects: Counter[str] = Counter()
        """By store."""
        forking.forget_in_child(self)

    def take(self, notes: Sequence[Note], owner: str, store: str) -> None:
        """Count what has happened."""
        del owner
        with self.lock:
            for kind, claim, _, facts, _, _ in notes:
                count = _COUNTS.get(kind)
                if count is None or claim is None:
                    self._count_store(kind, store, facts)
                    continue
                key = (store, claim.name, claim.weight, claim.capacity)
                series = self._by_name.get(key)
                if series is None:
                    series = self._remember(key, kind_of(claim))
                count(series, claim.id, facts)

    def __call__(self, event: Event) -> None:
        """Count an event."""
        facts = tuple(getattr(event, one) for one in own_fields(event))
        with self.lock:
            count = _COUNTS.get(type(event))
            if count is None:
                self._count_store(type(event), event.store, facts)
            else:
                count(self._series(event.store, event.name, event.kind), event.claim, facts)

    def _remember(self, key: tuple[str, str, int, int], kind: str) -> Series:
        if len(self._by_name) >= MOST_NAMES:
            self._by_name.clear()
        found = self._by_name[key] = self._series(key[0], key[1], kind)
        return found

    def _series(self, store: str, name: str, kind: str) -> Series:
        labels = Labels(name if self.raw_names else self._patterns.of(name), kind, store)
        found = self.series.get(labels)
        if found is None:
            found = self.series[labels] = Series(labels)
        return found

    def _count_store(self, kind: type[Event], store: str, facts: tuple[Any, ...]) -> None:
        if kind is StoreError:
            self.store_errors[store, facts[0], facts[1]] += 1
        elif kind is Reconnected:
            self.reconnects[store] += 1

    def after_fork_in_child(self) -> None:
        """Count anew: what the parent holds is counted there."""
        self.lock = threading.RLock()
        self._by_name, self.series = {}, {}
        self.store_errors, self.reconnects = Counter(), Counter()


def _waiting(series: Series, claim: str, _facts: tuple[Any, ...]) -> None:
    series.waiters[claim] = time.monotonic()


def _acquired(series: Series, claim: str, facts: tuple[Any, ...]) -> None:
    series.waiters.pop(claim, None)
    series.held.add(claim)
    series.outcomes["acquired"] += 1
    series.waits.observe(facts[0])


def _timed_out(series: Series, claim: str, facts: tuple[Any, ...]) -> None:
    series.waiters.pop(claim, None)
    series.outcomes["timed_out"] += 1
    series.waits.observe(facts[0])


def _skipped(series: Series, _claim: str, _facts: tuple[Any, ...]) -> None:
    series.outcomes["skipped"] += 1


def _withdrawn(series: Series, claim: str, facts: tuple[Any, ...]) -> None:
    series.waiters.pop(claim, None)
    if facts[1] != "replaced":  # the same acquire goes on
        series.outcomes[facts[1]] += 1


def _ended(series: Series, claim: str, facts: tuple[Any, ...]) -> None:
    series.held.discard(claim)
    series.holds.observe(facts[0])


def _lost(series: Series, claim: str, facts: tuple[Any, ...]) -> None:
    series.held.discard(claim)
    series.lost[facts[0]] += 1
    series.holds.observe(facts[1])


def _renewed(series: Series, _claim: str, facts: tuple[Any, ...]) -> None:
    series.margins.observe(facts[0])


def _at_risk(series: Series, _claim: str, _facts: tuple[Any, ...]) -> None:
    series.at_risk += 1


def _nothing(_series: Series, _claim: str, _facts: tuple[Any, ...]) -> None:
    pass


_COUNTS: dict[type[Event], Callable[[Series, str, tuple[Any, ...]], None]] = {
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
