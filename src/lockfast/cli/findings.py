"""What was found, in rows: how grave, of what, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from lockfast.cli.screen import plain

if TYPE_CHECKING:
    from collections.abc import Iterable

STYLES = {
    "promise": "bold",
    "ok": "green",
    "note": "cyan",
    "warning": "yellow",
    "error": "bold red",
}


def as_rows(found: Iterable[tuple[str, str, str, str]]) -> Table:
    """Return rows for a level, a subject, a message and a remedy each."""
    rows = Table.grid(padding=(0, 2, 0, 0))
    for level, subject, message, remedy in found:
        rows.add_row(plain(level, STYLES[level]), plain(subject), plain(message))
        if remedy:
            rows.add_row("", "", plain(f"to fix it: {remedy}", "dim"))
    return rows
