"""The report for programs: what `--json` writes."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.challenge.report.figures import figures
from holdfast.challenge.report.wording import (
    NOT_FIXED,
    again,
    headline,
    numbered,
    without_a_turn,
)

if TYPE_CHECKING:
    from holdfast.challenge.outcome import Finding, Outcome


def fields(outcome: Outcome, *, where: str = "") -> dict[str, Any]:
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
        "findings": [_finding(one, outcome.began) for _, one in numbered(outcome)],
        "again": again(outcome.setting, where=where),
        "note": NOT_FIXED,
    }


def _finding(one: Finding, zero: float) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "at": round(one.at - zero, 6),
        "message": one.message,
        "clients": list(one.clients),
        "documented": one.is_documented,
        "events": [{**asdict(event), "at": round(event.at - zero, 6)} for event in one.example],
    }
