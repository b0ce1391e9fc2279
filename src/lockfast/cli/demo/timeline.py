"""Who held when, drawn: one row per worker, time from left to right."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from rich.text import Text

from lockfast.observe.durations import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.cli.demo.play import Play, Span

WIDTH = 62
MARGIN = 14
RIGHT, WRONG, FROZEN, NOBODY = "green", "bold red", "cyan", "dim"


def timeline(play: Play) -> Iterator[Text]:
    """Yield the lines of the drawing, 76 columns wide."""
    shown = _zoomed(play)
    start = min(one.begin for one in shown)
    end = max(one.end for one in shown)
    column = (end - start) / WIDTH or 1.0
    for worker in sorted({one.worker for one in play.spans}):
        mine = [one for one in shown if one.worker == worker]
        yield Text(f"  {worker:{MARGIN - 2}}", style="bold").append_text(
            _row(mine, start=start, column=column)
        )
    scale = f"{duration(end - start)}"
    yield Text(" " * MARGIN + "0" + scale.rjust(WIDTH - 1), style="dim")


def _zoomed(play: Play) -> Sequence[Span]:
    """Return the spans to draw: if there are many, a stretch from the middle of the play.

    At the beginning the workers are still setting off, at the end they have run dry.
    """
    if play.zoom is None or len(play.spans) <= play.zoom:
        return play.spans
    begin = play.spans[len(play.spans) // 3].begin
    end = begin + play.zoom * median(one.end - one.begin for one in play.spans)
    return [one for one in play.spans if begin <= one.begin and one.end <= end] or play.spans


def _row(spans: Sequence[Span], *, start: float, column: float) -> Text:
    row = Text()
    for one in spans:
        first = min(int((one.begin - start) / column), WIDTH - 1)
        last = min(max(round((one.end - start) / column), first + 1), WIDTH)
        first = max(first, len(row.plain))
        if first >= last:
            continue
        row.append("·" * (first - len(row.plain)), style=NOBODY)
        row.append(_block(one, last - first), style=_style(one))
    row.append("·" * (WIDTH - len(row.plain)), style=NOBODY)
    return row


def _block(span: Span, width: int) -> str:
    """Return a block that can be seen without colours too."""
    filling = "░" if span.is_frozen else "█" if not span.label else "▒"
    label = f"{span.label}" if len(span.label) + 2 <= width else ""
    if not label and width > 1:
        return "▐" + filling * (width - 2) + "▌"
    if width == 1:
        return "▌"
    return f"▐{label.center(width - 2, filling if span.is_frozen else ' ')}▌"


def _style(span: Span) -> str:
    if span.is_frozen:
        return FROZEN
    return WRONG if span.is_wrong else RIGHT
