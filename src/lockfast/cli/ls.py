"""`lockfast ls`: which names are in use, by whom, and who waits."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

import click
from rich.live import Live
from rich.text import Text

from lockfast.cli.cycles import cycle_fields, found_twice, sentences
from lockfast.cli.listing import as_fields
from lockfast.cli.options import CONTEXT, names_in_use, store_options
from lockfast.cli.overview import chosen, laid_out
from lockfast.cli.screen import plain, screen, write_json
from lockfast.cli.store import opened, tell, told
from lockfast.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lockfast import Inspection, Locks
    from lockfast.cli.cycles import Cycle
    from lockfast.cli.overview import Order

EPILOG = """\b
Examples:
  lockfast ls
  lockfast ls order: --sort waiters
  lockfast ls --older-than 3600
  lockfast ls --watch
  lockfast ls --cycles
  lockfast ls --json | jq '.locks[].name'

\b
Exit codes:
  0 as a rule; 1 with --cycles, if there is one
"""

EVERY = 1.0


@click.command(epilog=EPILOG, context_settings=CONTEXT)
@click.argument("prefix", default="", shell_complete=names_in_use)
@click.option(
    "--sort",
    type=click.Choice(["name", "age", "waiters"]),
    default="name",
    show_default=True,
    help="In which order: age has the longest held first, waiters the longest line.",
)
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Only those that are held for this long already.",
)
@click.option(
    "--cycles",
    is_flag=True,
    help="Only who waits for each other, in a circle; exits with 1 if somebody does.",
)
@click.option("--watch", is_flag=True, help="Show it anew every second, until Ctrl-C.")
@store_options
def ls(
    *,
    prefix: str,
    sort: Order,
    older_than: float,
    cycles: bool,
    watch: bool,
    url: str | None,
    namespace: str | None,
    as_json: bool,
) -> None:
    """List the locks in use, or those whose names begin with PREFIX.

    Shown are the holders, since when, how much of the ttl is left, with which token, and how
    many wait behind them, the first for how long. It asks the store itself, so it works when
    the application is down.
    """
    if cycles and watch:
        raise click.UsageError("--cycles looks twice and is done: it does not go with --watch")
    with told(as_json=as_json), opened(url, namespace=namespace, must_exist=True) as locks:
        if cycles:
            found = found_twice(lambda: locks.survey(prefix))
            _print_cycles(locks, found, as_json=as_json)
            sys.exit(bool(found))

        if not watch:
            listed, failure = _listed(locks, prefix)
            seen = chosen(listed, sort=sort, older_than=older_than)
            _print(locks, seen, as_json=as_json, failure=failure)
            if failure is not None:
                raise failure
            return

        def look() -> list[Inspection]:
            return chosen(list(locks.survey(prefix)), sort=sort, older_than=older_than)

        try:
            _watch(locks, look, as_json=as_json)
        except KeyboardInterrupt:
            # The way to end it, and no failure.
            return


def _listed(locks: Locks, prefix: str) -> tuple[list[Inspection], LockError | None]:
    """Return what could be listed, and the error that says what could not."""
    seen: list[Inspection] = []
    try:
        for one in locks.survey(prefix):
            seen.append(one)  # noqa: PERF402 - what came before an error is shown
    except LockError as error:
        if not seen:
            raise
        return seen, error
    return seen, None


def _print(
    locks: Locks, seen: list[Inspection], *, as_json: bool, failure: LockError | None = None
) -> None:
    if as_json:
        # A program that reads stdout alone must not take a part for the whole.
        incomplete = {} if failure is None else {"incomplete": str(failure)}
        write_json(_fields(locks, seen) | incomplete)
    elif sys.stdout.isatty():
        console = screen()
        console.print(_page(locks, seen, console.width), overflow="fold")
    else:
        lines = ("".join(text for text, _ in line) for line in laid_out(seen, width=None))
        print("\n".join(lines), flush=True)


def _print_cycles(locks: Locks, found: list[Cycle], *, as_json: bool) -> None:
    if as_json:
        write_json({"store": locks.location, "cycles": [cycle_fields(one) for one in found]})
        return
    for cycle in found:
        print("\n".join(sentences(cycle)), flush=True)
    if not found:
        tell(f"nobody waits in a circle at {locks.location}")


def _watch(locks: Locks, look: Callable[[], list[Inspection]], *, as_json: bool) -> None:
    if sys.stdout.isatty() and not as_json:
        _watch_live(locks, look)
    while True:
        if as_json:
            print(json.dumps(_fields(locks, look())), flush=True)
        else:
            _print(locks, look(), as_json=False)
        time.sleep(EVERY)


def _watch_live(locks: Locks, look: Callable[[], list[Inspection]]) -> None:
    console = screen()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_page(locks, look(), console.width), refresh=True)
            time.sleep(EVERY)


def _page(locks: Locks, seen: list[Inspection], width: int) -> Text:
    """Return what a terminal of that width shows: the locks, and where the store is."""
    where = plain(f"{len(seen) or 'no locks'} in use at {locks.location}", "dim")
    lines = [Text.assemble(*line) for line in laid_out(seen, width=width)] if seen else []
    return Text("\n").join([*lines, *[Text()] * bool(seen), where])


def _fields(locks: Locks, seen: list[Inspection]) -> dict[str, object]:
    return {"store": locks.location, "locks": [as_fields(one) for one in seen]}
