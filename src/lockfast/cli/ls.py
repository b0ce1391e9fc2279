"""`lockfast ls`: lists the names in use, their holders, and how many claims wait."""

from __future__ import annotations

import json
import sys
import time
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

import click
from rich.cells import cell_len
from rich.live import Live
from rich.text import Text

from lockfast.cli.deadlocks import confirmed_cycles, sentences
from lockfast.cli.json_output import cycle_fields, listing_fields, write_json
from lockfast.cli.output import plain, screen
from lockfast.cli.store import CONTEXT, names_in_use, opened, store_options, tell, told
from lockfast.cli.text import closed, role
from lockfast.errors import LockError
from lockfast.model import printable
from lockfast.observe.figures import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockfast import Inspection, Locks
    from lockfast.cli.deadlocks import Cycle

    Order = Literal["name", "age", "waiters"]
    Cells = tuple[str, ...]

# How `ls` shows many locks: as a table if the screen is wide enough, otherwise with a few lines per
# lock.
#
# The layout is done by hand. For ten thousand locks, this code needs a tenth of a second, and rich
# would need seconds.

LS_COLUMNS = ("NAME", "HELD BY", "FOR", "TTL LEFT", "TOKEN", "KIND", "WAITED", "WAITING")
GAP = 2

LsRow = list[tuple[str, str]]
"""The parts of a line, each with its style."""


def chosen(
    seen: list[Inspection], *, sort: Order = "name", older_than: float = 0.0
) -> list[Inspection]:
    """Return the locks held for at least `older_than` seconds, in the requested order."""
    if older_than > 0:
        seen = [one for one in seen if _age(one) >= older_than]
    return sorted(seen, key=_ORDERS[sort]) if sort in _ORDERS else seen


def _age(seen: Inspection) -> float:
    return max((one.age for one in seen.holders), default=-1.0)


def _waited(seen: Inspection) -> float:
    return max((one.age for one in seen.line), default=0.0)


_ORDERS: dict[str, Callable[[Inspection], tuple[float, ...]]] = {
    "age": lambda one: (-_age(one),),
    "waiters": lambda one: (-len(one.line), -_waited(one)),
}
"""Sort keys: longest held first, or longest line first. A survey already returns the names in
order.
"""


def laid_out(seen: Sequence[Inspection], *, width: int | None) -> Iterator[LsRow]:
    """Yield the lines for a screen of that width; with None, lines are as wide as needed."""
    rows = [row for one in seen for row in _rows(one)]
    columns = list(zip(LS_COLUMNS, *rows, strict=True))
    if width is not None:
        # A person does not miss empty columns. A program may count the columns, so its output has
        # all of them.
        columns = [one for one in columns if any(one[1:])]
    widths = [max(map(_width, column)) for column in columns]
    if width is not None and sum(widths) + GAP * (len(widths) - 1) > width:
        for one in seen:
            yield from _stacked(one, width)
        return
    head, *shown = zip(*columns, strict=True)
    yield [(_joined(head, widths), "bold")]
    for row in shown:
        yield [(_padded(row[0], widths[0] + GAP), "bold"), (_joined(row[1:], widths[1:]), "")]


def _rows(seen: Inspection) -> Iterator[Cells]:
    waiting = (duration(_waited(seen)), str(len(seen.line))) if seen.line else ("", "")
    of_all = zip_longest([(printable(seen.name), waiting)], _held(seen), fillvalue=("", ("", "")))
    for (name, its_waiting), cells in of_all:
        yield (name, *cells, *its_waiting)


def _held(seen: Inspection) -> Iterator[Cells]:
    for holder in seen.holders:
        token = "" if holder.token is None else str(holder.token)
        kind = role(holder.weight, seen.capacity)
        yield str(holder.owner), duration(holder.age), _span(holder.remaining), token, kind
    if not seen.holders or seen.closing:
        yield closed(seen) or "nobody", "", "", "", role(None, seen.capacity)


def _stacked(seen: Inspection, width: int) -> Iterator[LsRow]:
    yield [(printable(seen.name), "bold")]
    for owner, age, left, token, kind in _held(seen):
        yield [(f"  held by {owner}" if age or left or token else f"  {owner}", "")]
        facts = [kind] + [f"for {age}"] * bool(age) + [f"ttl left {left}"] * bool(left)
        yield from ([(line, "")] for line in _wrapped(facts, width))
        if token:
            yield [(f"  token {token}", "dim")]
    if seen.line:
        yield [(f"  {len(seen.line)} waiting, for {duration(_waited(seen))}", "yellow")]


def _wrapped(facts: Sequence[str], width: int) -> Iterator[str]:
    """Yield lines that contain the facts; no fact is split, and continuation lines are indented."""
    line = f"  {', '.join(facts)}"
    if len(line) <= width:
        yield line
        return
    line = f"  {facts[0]}"
    for fact in facts[1:]:
        if len(f"{line}, {fact},") <= width:
            line += f", {fact}"
        else:
            yield f"{line},"
            line = f"    {fact}"
    yield line


def _span(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(
        _padded(cell, width + GAP) for cell, width in zip(cells, widths, strict=True)
    ).rstrip()


def _padded(cell: str, width: int) -> str:
    # Most cells are ASCII. Only for ASCII is the width on the screen certain to equal the length.
    return cell.ljust(width) if cell.isascii() else cell + " " * (width - cell_len(cell))


def _width(cell: str) -> int:
    return len(cell) if cell.isascii() else cell_len(cell)


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

WATCH_SECONDS = 1.0


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

    Shows the holders, how long each has held the lock, how much of its ttl is left, its token,
    how many claims wait, and how long the first has waited. It asks the store itself, so it
    works when the application is down.
    """
    if cycles and watch:
        raise click.UsageError("--cycles looks twice and is done: it does not go with --watch")
    with told(as_json=as_json), opened(url, namespace=namespace, must_exist=True) as locks:
        if cycles:
            found = confirmed_cycles(lambda: locks.survey(prefix))
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
            # Ctrl-C is the normal end of --watch, not a failure.
            return


def _listed(locks: Locks, prefix: str) -> tuple[list[Inspection], LockError | None]:
    """Return the locks that could be listed, and the error that ended the listing early, if any."""
    seen: list[Inspection] = []
    try:
        for one in locks.survey(prefix):
            seen.append(one)  # noqa: PERF402 - names listed before an error are shown
    except LockError as error:
        if not seen:
            raise
        return seen, error
    return seen, None


def _print(
    locks: Locks, seen: list[Inspection], *, as_json: bool, failure: LockError | None = None
) -> None:
    if as_json:
        # A program that reads only stdout must not mistake an incomplete listing for a complete
        # one.
        incomplete = {} if failure is None else {"incomplete": str(failure)}
        write_json(listing_fields(locks.location, seen) | incomplete)
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
            print(json.dumps(listing_fields(locks.location, look())), flush=True)
        else:
            _print(locks, look(), as_json=False)
        time.sleep(WATCH_SECONDS)


def _watch_live(locks: Locks, look: Callable[[], list[Inspection]]) -> None:
    console = screen()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(_page(locks, look(), console.width), refresh=True)
            time.sleep(WATCH_SECONDS)


def _page(locks: Locks, seen: list[Inspection], width: int) -> Text:
    """Return the page for a terminal of that width: the locks, and the location of the store."""
    where = plain(f"{len(seen) or 'no locks'} in use at {locks.location}", "dim")
    lines = [Text.assemble(*line) for line in laid_out(seen, width=width)] if seen else []
    return Text("\n").join([*lines, *[Text()] * bool(seen), where])
