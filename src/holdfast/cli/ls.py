"""`holdfast ls`: which names are in use, by whom, and who waits."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live

from holdfast.cli.listing import as_fields, overview
from holdfast.cli.options import CONTEXT, store_options
from holdfast.cli.screen import plain, screen, write_json
from holdfast.cli.store import opened, told

if TYPE_CHECKING:
    from holdfast import Inspection, Locks

EPILOG = """\b
Examples:
  holdfast ls
  holdfast ls order:
  holdfast ls --watch
  holdfast ls --json | jq '.locks[].name'
"""

EVERY = 1.0


@click.command(epilog=EPILOG, context_settings=CONTEXT)
@click.argument("prefix", default="")
@click.option("--watch", is_flag=True, help="Show it anew every second, until Ctrl-C.")
@store_options
def ls(*, prefix: str, watch: bool, url: str | None, namespace: str, as_json: bool) -> None:
    """List the locks in use, or those whose names begin with PREFIX.

    Shown are the holders, since when, with which token, and how many wait behind them.
    It asks the store itself, so it works when the application is down.
    """
    with told(as_json=as_json), opened(url, namespace=namespace, must_exist=True) as locks:
        if not watch:
            _print(locks, prefix, as_json=as_json)
            return
        try:
            _watch(locks, prefix, as_json=as_json)
        except KeyboardInterrupt:
            # The way to end it, and no failure.
            return


def _print(locks: Locks, prefix: str, *, as_json: bool) -> None:
    seen = list(locks.survey(prefix))
    if as_json:
        write_json(_fields(locks, seen))
        return
    console = screen()
    console.print(_page(locks, seen, console))


def _watch(locks: Locks, prefix: str, *, as_json: bool) -> None:
    console = screen()
    if console.is_terminal and not as_json:
        _watch_live(locks, prefix, console)
    while True:
        seen = list(locks.survey(prefix))
        if as_json:
            print(json.dumps(_fields(locks, seen)), flush=True)
        else:
            console.print(_page(locks, seen, console))
        time.sleep(EVERY)


def _watch_live(locks: Locks, prefix: str, console: Console) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_page(locks, list(locks.survey(prefix)), console), refresh=True)
            time.sleep(EVERY)


def _page(locks: Locks, seen: list[Inspection], console: Console) -> RenderableType:
    """Return the table; on a terminal also where the store is."""
    if not console.is_terminal:
        return overview(seen)
    where = plain(f"{len(seen) or 'no locks'} in use at {locks.location}", "dim")
    return Group(overview(seen), "", where) if seen else where


def _fields(locks: Locks, seen: list[Inspection]) -> dict[str, object]:
    return {"store": locks.location, "locks": [as_fields(one) for one in seen]}
