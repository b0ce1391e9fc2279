"""`lockfast demo`: the four stories that make people look for a distributed lock."""

from __future__ import annotations

import importlib
import sys
from textwrap import wrap
from typing import TYPE_CHECKING, cast

import click
from rich.text import Text

from lockfast.cli.demo.timeline import timeline
from lockfast.cli.options import CONTEXT, store_options
from lockfast.cli.screen import plain, screen, table, write_json
from lockfast.cli.store import opened, told

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from lockfast.cli.demo.play import Play, Story

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
    """Play what goes wrong without a lock, and what fixes it.

    Real processes on this machine, each story without and with Lockfast: nothing of the
    outcome is chosen by the program. All four take less than half a minute.
    """
    plays: list[Play] = []
    with told(as_json=as_json):
        with opened(url, namespace=namespace) as locks:
            locks.diagnose()  # a store that is down is told here, and not by every worker
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
