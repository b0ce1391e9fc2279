"""Text, colours, tables and wording of the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lockfast.cli.text import role
from lockfast.model import ALL, printable
from lockfast.observe.figures import duration

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lockfast import Holder, Inspection

# The console of a command: coloured on a terminal, plain in a pipe.

UNBOUNDED = 100_000


def screen() -> Console:
    """Return the console for stdout; in a pipe, nothing is wrapped, truncated or coloured."""
    if sys.stdout.isatty():
        return Console(highlight=False, markup=False)
    return Console(highlight=False, markup=False, no_color=True, width=UNBOUNDED)


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table in our style."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", title=title)
    for column in columns:
        # Fold a long name instead of truncating it, because names may differ only at their ends.
        shown.add_column(column, overflow="fold")
    return shown


def plain(text: str, style: str = "") -> Text:
    """Return text that neither the terminal nor rich interprets."""
    return Text(printable(text), style=style)


# Findings as rows: level, subject, message and remedy.

FINDING_STYLES = {
    "promise": "bold",
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "error": "bold red",
}


def as_rows(found: Iterable[tuple[str, str, str, str]]) -> Table:
    """Return a table of findings: level, subject, message and remedy."""
    rows = Table.grid(padding=(0, 2, 0, 0))
    for level, subject, message, remedy in found:
        rows.add_row(plain(level, FINDING_STYLES[level]), plain(subject), plain(message))
        if remedy:
            rows.add_row("", "", plain(f"to fix it: {remedy}", "dim"))
    return rows


# An inspection of one name, in full detail.


def details(seen: Inspection) -> Table:
    """Return everything the store reports about one name, including its line."""
    rows = table("", "OWNER", "FOR", "TOKEN", "ENDS IN")
    for holder in seen.holders:
        ends_in = "" if holder.remaining is None else duration(holder.remaining)
        rows.add_row(
            plain(_verb(holder.weight, seen.capacity), "green"),
            plain(str(holder.owner)),
            duration(holder.age),
            _token(holder),
            ends_in,
        )
    for closing in seen.closing:
        ends_in = duration(closing.remaining)
        rows.add_row(plain("closed", "dim"), plain(f"after {closing.owner}"), "", "", ends_in)
    for waiter in seen.line:
        to_do = {"reader": " to read", "writer": " to write"}
        wish = to_do.get(role(waiter.weight, seen.capacity), "")
        place = plain(f"waits {waiter.place}{wish}", "yellow")
        rows.add_row(place, plain(str(waiter.owner)), duration(waiter.age), "", "")
    return rows


def _verb(weight: int, capacity: int) -> str:
    if capacity == ALL:
        return "writes" if weight == ALL else "reads"
    return "holds" if weight == 1 else f"holds {weight}"


def _token(holder: Holder) -> str:
    return "" if holder.token is None else str(holder.token)
