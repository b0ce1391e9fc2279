"""How `ls` shows many locks: a table where the screen is wide enough, else a few lines for each.

Laid out by hand: of ten thousand locks rich makes a table in seconds, and this in a tenth of one.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Literal

from rich.cells import cell_len

from lockfast.cli.listing import role
from lockfast.cli.wording import closed
from lockfast.model import printable
from lockfast.observe.durations import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lockfast import Inspection

    Order = Literal["name", "age", "waiters"]
    Cells = tuple[str, ...]

COLUMNS = ("NAME", "HELD BY", "FOR", "TTL LEFT", "TOKEN", "KIND", "WAITED", "WAITING")
GAP = 2

Line = list[tuple[str, str]]
"""The parts of a line, each with its style."""


def chosen(
    seen: list[Inspection], *, sort: Order = "name", older_than: float = 0.0
) -> list[Inspection]:
    """Return those that are held for that long already, in the order that is asked for."""
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
"""The longest first, and the most; by name they come already."""


def laid_out(seen: Sequence[Inspection], *, width: int | None) -> Iterator[Line]:
    """Yield the lines that show them on a screen of that width; None is as wide as is needed."""
    rows = [row for one in seen for row in _rows(one)]
    columns = list(zip(COLUMNS, *rows, strict=True))
    if width is not None:
        # A program may count columns; a person does not miss those in which nothing stands.
        columns = [one for one in columns if any(one[1:])]
    widths = [max(map(_width, column)) for column in columns]
    if width is not None and sum(widths) + GAP * (len(widths) - 1) > width:
        for one in seen:
            yield from _below_each_other(one, width)
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


def _below_each_other(seen: Inspection, width: int) -> Iterator[Line]:
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
    """Yield them in lines; no fact is broken, and the next line stands below the first."""
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
    # Most are ASCII, and nothing else may be as wide as it is long.
    return cell.ljust(width) if cell.isascii() else cell + " " * (width - cell_len(cell))


def _width(cell: str) -> int:
    return len(cell) if cell.isascii() else cell_len(cell)
