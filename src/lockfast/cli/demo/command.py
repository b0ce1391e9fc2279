"""`lockfast demo`: the four stories that make people look for a distributed lock."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass, field
from statistics import median
from textwrap import wrap
from typing import TYPE_CHECKING, Protocol, cast

import click
from rich.text import Text

from lockfast.cli.json_output import write_json
from lockfast.cli.output import plain, screen, table
from lockfast.cli.store import CONTEXT, opened, store_options, told
from lockfast.observe.figures import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console
    from rich.table import Table

# The timeline, which shows who held the lock when. Each worker has a row, and time runs from left
# to right.

TIMELINE_WIDTH = 62
TIMELINE_MARGIN = 14
RIGHT_STYLE, WRONG_STYLE, FROZEN_STYLE, NOBODY_STYLE = "green", "bold red", "cyan", "dim"


def timeline(play: Play) -> Iterator[Text]:
    """Yield the lines of the drawing, 76 columns wide."""
    shown = _zoomed(play)
    start = min(one.begin for one in shown)
    end = max(one.end for one in shown)
    column = (end - start) / TIMELINE_WIDTH or 1.0
    for worker in sorted({one.worker for one in play.spans}):
        mine = [one for one in shown if one.worker == worker]
        yield Text(f"  {worker:{TIMELINE_MARGIN - 2}}", style="bold").append_text(
            _row(mine, start=start, column=column)
        )
    scale = f"{duration(end - start)}"
    yield Text(" " * TIMELINE_MARGIN + "0" + scale.rjust(TIMELINE_WIDTH - 1), style="dim")


def _zoomed(play: Play) -> Sequence[Span]:
    """Return the spans to draw; if there are too many, only a stretch from the middle of the play.

    At the beginning the workers are still starting, and at the end they have run out of work.
    """
    if play.zoom is None or len(play.spans) <= play.zoom:
        return play.spans
    begin = play.spans[len(play.spans) // 3].begin
    end = begin + play.zoom * median(one.end - one.begin for one in play.spans)
    return [one for one in play.spans if begin <= one.begin and one.end <= end] or play.spans


def _row(spans: Sequence[Span], *, start: float, column: float) -> Text:
    row = Text()
    for one in spans:
        first = min(int((one.begin - start) / column), TIMELINE_WIDTH - 1)
        last = min(max(round((one.end - start) / column), first + 1), TIMELINE_WIDTH)
        first = max(first, len(row.plain))
        if first >= last:
            continue
        row.append("·" * (first - len(row.plain)), style=NOBODY_STYLE)
        row.append(_block(one, last - first), style=_style(one))
    row.append("·" * (TIMELINE_WIDTH - len(row.plain)), style=NOBODY_STYLE)
    return row


def _block(span: Span, width: int) -> str:
    """Return a block that is visible even without colours."""
    filling = "░" if span.is_frozen else "█" if not span.label else "▒"
    label = f"{span.label}" if len(span.label) + 2 <= width else ""
    if not label and width > 1:
        return "▐" + filling * (width - 2) + "▌"
    if width == 1:
        return "▌"
    return f"▐{label.center(width - 2, filling if span.is_frozen else ' ')}▌"


def _style(span: Span) -> str:
    if span.is_frozen:
        return FROZEN_STYLE
    return WRONG_STYLE if span.is_wrong else RIGHT_STYLE


EPILOG = """\b
Examples:
  lockfast demo
  lockfast demo frozen
  lockfast demo --url redis://localhost --json

\b
Exit codes:
  0 every run with Lockfast was exact; 1 one was not
"""

STORIES = ("oversell", "jobs", "frozen", "transaction")


@click.command(epilog=EPILOG, context_settings=CONTEXT)
@click.argument("story", required=False, type=click.Choice(STORIES))
@store_options
def demo(*, story: str | None, url: str | None, namespace: str | None, as_json: bool) -> None:
    """Show what goes wrong without a lock, and what fixes it.

    Real processes on this machine play each story without and with Lockfast, and the program
    does not choose the outcome. All four stories take less than half a minute.
    """
    plays: list[Play] = []
    with told(as_json=as_json):
        with opened(url, namespace=namespace) as locks:
            locks.diagnose()  # reports a store that is down once, instead of once per worker
            where = locks.location
        console = screen()
        for number, name in enumerate([story] if story else STORIES, 1):
            tale = cast("Story", importlib.import_module(f"lockfast.cli.demo.{name}"))
            if not as_json:
                _open(console, tale, number)
            for guarded in (False, True):
                plays.append(play := tale.play(url, guarded=guarded))
                if not as_json:
                    _show(console, play)
            if not as_json:
                _close(console, tale)
    if as_json:
        write_json([one.as_fields() for one in plays])
    else:
        console.print(_results(plays))
        if console.is_terminal:
            console.print()
            console.print(plain(f"locks at {where}", "dim"))
    sys.exit(0 if all(one.is_right for one in plays if one.guarded) else 1)


def _open(console: Console, story: Story, number: int) -> None:
    console.print(plain(f"{number} {story.TITLE}", "bold underline"))
    for line in wrap(story.TEXT, 74):
        console.print(plain(f"  {line}"))
    console.print()


def _show(console: Console, play: Play) -> None:
    way = "with Lockfast" if play.guarded else "without Lockfast"
    verdict = _verdict(play)
    head = Text(f"  {way}", style="bold")
    head.append(" " * (76 - len(head.plain) - len(verdict.plain))).append_text(verdict)
    console.print(head)
    for line in timeline(play):
        console.print(line)
    console.print()


def _close(console: Console, story: Story) -> None:
    console.print(plain("  What fixed it:", "bold"))
    for line in story.CODE.splitlines():
        console.print(plain(f"      {line}", "cyan"))
    console.print()


def _results(plays: list[Play]) -> Table:
    rows = table("STORY", "WITHOUT LOCKFAST", "WITH LOCKFAST")
    for without, guarded in zip(plays[::2], plays[1::2], strict=True):
        rows.add_row(plain(without.story, "bold"), _verdict(without), _verdict(guarded))
    return rows


def _verdict(play: Play) -> Text:
    mark, style = ("✓", "green") if play.is_right else ("✗", "red")
    return Text(f"{mark} {play.verdict}", style=style)


# The outcome of a story: the figures, and what each worker did when.


@dataclass(frozen=True, slots=True)
class Span:
    """One activity of one worker, from `begin` to `end`; the drawing shows `label`, if any."""

    worker: str
    begin: float
    end: float
    label: str = ""
    is_wrong: bool = False
    is_frozen: bool = False


@dataclass(frozen=True, slots=True)
class Play:
    """One run of a story, with its figures; a figure that the story does not count is None."""

    story: str
    guarded: bool
    seconds: float
    verdict: str
    is_right: bool
    sold: int | None = None
    stock: int | None = None
    duplicates: int | None = None
    stale_writes: int | None = None
    spans: tuple[Span, ...] = field(default=(), repr=False)
    zoom: int | None = None
    """Draw about this many spans from the middle of the play; None draws all."""

    def as_fields(self) -> dict[str, object]:
        """Return the play for --json."""
        return {
            "story": self.story,
            "guarded": self.guarded,
            "sold": self.sold,
            "stock": self.stock,
            "duplicates": self.duplicates,
            "stale_writes": self.stale_writes,
            "seconds": round(self.seconds, 3),
        }


class Story(Protocol):
    """A module of this package that plays one story."""

    NAME: str
    TITLE: str
    TEXT: str
    CODE: str

    def play(self, url: str | None, *, guarded: bool) -> Play:
        """Run the workers, and count the outcome."""
