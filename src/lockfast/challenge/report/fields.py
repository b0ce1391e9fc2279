"""The report for programs: what `--json` writes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lockfast.challenge.report.figures import figures
from lockfast.challenge.report.wording import (
    NOT_FIXED,
    again,
    headline,
    message,
    numbered,
    without_a_turn,
)

if TYPE_CHECKING:
    from lockfast.challenge.history import Event
    from lockfast.challenge.outcome import Finding, Outcome


def fields(outcome: Outcome, *, command: str = "") -> dict[str, Any]:
    """Return all but the history itself; times are seconds since the run began."""
    counted = figures(outcome)
    numbers = asdict(counted)
    del numbers["costs"]
    return {
        "verdict": outcome.verdict,
        "summary": headline(outcome),
        "setting": asdict(outcome.setting),
        "figures": numbers,
        "faults": [asdict(one) for one in counted.by_kind],
        "without_a_turn": list(without_a_turn(outcome)),
        "not_made": outcome.not_made,
        "findings": [_finding(one, outcome) for _, one in numbered(outcome)],
        "again": command or again(outcome.setting),
        "note": NOT_FIXED,
    }


def _finding(one: Finding, outcome: Outcome) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "at": _since(one.at, outcome),
        "message": message(one, outcome),
        "clients": list(one.clients),
        "documented": one.is_documented,
        "events": [_event(event, outcome) for event in one.example],
    }


def _event(event: Event, outcome: Outcome) -> dict[str, Any]:
    times = {"at": _since(event.at, outcome)}
    if event.deadline is not None:
        times["deadline"] = _since(event.deadline, outcome)
    return asdict(event) | times


def _since(at: float, outcome: Outcome) -> float:
    return round(at - outcome.began, 6)
