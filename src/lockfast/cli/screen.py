"""Where the answers of a command go: colours on a terminal, plain in a pipe, or JSON."""

from __future__ import annotations

import json
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lockfast.model import printable

UNBOUNDED = 100_000


def screen() -> Console:
    """Return the console for stdout. In a pipe nothing is wrapped, cut or coloured."""
    if sys.stdout.isatty():
        return Console(highlight=False, markup=False)
    return Console(highlight=False, markup=False, no_color=True, width=UNBOUNDED)


def table(*columns: str, title: str | None = None) -> Table:
    """Return an empty table in the house's manner."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", title=title)
    for column in columns:
        # A long name is folded and never cut: its end may be what tells it apart.
        shown.add_column(column, overflow="fold")
    return shown


def plain(text: str, style: str = "") -> Text:
    """Return text that the terminal neither obeys nor rich interprets."""
    return Text(printable(text), style=style)


def write_json(answer: object) -> None:
    """Write one JSON document to stdout."""
    print(json.dumps(answer, indent=2, ensure_ascii=False))
