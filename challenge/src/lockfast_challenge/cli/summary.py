"""The outcome of a run, on a terminal of any width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group
from rich.padding import Padding
from rich.table import Table

from lockfast.cli.output import plain, table
from lockfast_challenge.report.figures import figures
from lockfast_challenge.report.wording import (
    COSTS,
    NO_PROOF,
    NOT_FIXED,
    costs,
    counted,
    facts,
    headline,
    many,
    message,
    numbered,
    seconds,
    told,
    too_short,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Console, RenderableType

    from lockfast_challenge.outcome import Outcome, RunFinding
    from lockfast_challenge.report.figures import CostOfKind

VERDICT_STYLES = {"valid": "bold green", "invalid": "bold red", "unknown": "bold yellow"}
FINDINGS_SHOWN = 3
EVENTS_SHOWN = 16
FIRST_COLUMN_WIDTH = 18
"""Maximum width of the first column, in characters."""
TABLE_MIN_WIDTH = 70
"""Terminal width below which the table of faults becomes a list, in characters."""


def show(console: Console, outcome: Outcome, *, command: str) -> None:
    """Print the outcome; `command` is the shell command that repeats the run."""
    counts = figures(outcome)
    head = plain(outcome.verdict, VERDICT_STYLES[outcome.verdict])
    console.print(head.append(f"  {headline(outcome)}", style="not bold"))
    console.print()
    _print(console, _pairs(facts(outcome.setting)))
    _heading(console, "counted")
    _print(console, _pairs(counted(counts)))
    _findings(console, outcome)
    if counts.costs:
        _heading(console, "faults")
        _print(console, _costs(counts.by_kind, is_wide=console.width >= TABLE_MIN_WIDTH))
    if left := too_short(outcome):
        _print(console, plain(left, "dim"))
    if outcome.not_made:
        _heading(console, "could not be made here")
        _print(console, _pairs(outcome.not_made.items()))
    _heading(console, "to run it again")
    # The command is not wrapped, so that it can be copied.
    console.print(plain(f"  {command}"), soft_wrap=True)
    _print(console, plain(NOT_FIXED, "dim"))
    if outcome.verdict == "valid":
        _print(console, plain(NO_PROOF, "dim"))


def _findings(console: Console, outcome: Outcome) -> None:
    found = numbered(outcome)
    wrong = [pair for pair in found if not pair[1].is_documented]
    if not wrong:
        return
    _heading(console, "found")
    for number, one in wrong[:FINDINGS_SHOWN]:
        at = seconds(one.at - outcome.began)
        _print(console, plain(f"{number}. {one.kind}, after {at}", "bold red"))
        _print(console, plain(message(one, outcome)), by=4)
        _events(console, one, zero=outcome.began)
    left_out = len(wrong) - FINDINGS_SHOWN
    if left_out > 0:
        _print(console, plain(f"and {left_out} more; --report FILE shows them", "dim"))


def _events(console: Console, one: RunFinding, *, zero: float) -> None:
    if not one.example:
        return
    shown = one.example[:EVENTS_SHOWN]
    rows = Table.grid(padding=(0, 2, 0, 0))
    for event in shown:
        rows.add_row(*(plain(cell) for cell in told(event, zero=zero)))
    _print(console, rows, by=4)
    left_out = len(one.example) - len(shown)
    if left_out:
        _print(console, plain(f"and {many(left_out, 'more event')}", "dim"), by=4)


def _costs(kinds: Sequence[CostOfKind], *, is_wide: bool) -> RenderableType:
    if is_wide:
        rows = table(*(column.upper() for column in COSTS))
        for one in kinds:
            rows.add_row(*(plain(cell) for cell in costs(one)))
        return rows
    return _pairs(
        (
            kind,
            f"{strikes} times; unavailable {unavailable}; recovers in {recovers}, at most {most}",
        )
        for kind, strikes, _, unavailable, recovers, most in map(costs, kinds)
    )


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(plain(text, "bold"))


def _pairs(pairs: Iterable[tuple[str, str]]) -> RenderableType:
    """Return two columns; each pair is a table of its own, so that rows are not padded."""
    found = list(pairs)
    first = min(max((len(what) for what, _ in found), default=0), FIRST_COLUMN_WIDTH)
    rows = []
    for what, value in found:
        row = Table.grid(padding=(0, 2, 0, 0))
        row.add_column(style="dim", width=first, overflow="fold")
        row.add_column(overflow="fold")
        row.add_row(plain(what), plain(value))
        rows.append(row)
    return Group(*rows)


def _print(console: Console, what: RenderableType, *, by: int = 2) -> None:
    console.print(Padding(what, (0, 0, 0, by), expand=False))
