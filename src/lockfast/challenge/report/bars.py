"""What the clients did, drawn into their rows: bars, marks, and what they wrote.

What is narrower than can be seen is drawn together, so that a picture stays small and readable
however much happened.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from lockfast.challenge.report.frame import CELL, LEFT, LETTER, RIGHT, ROW, WIDTH, rect, tip
from lockfast.challenge.report.rows import seat

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lockfast.challenge.outcome import Finding, Write
    from lockfast.challenge.report.frame import Frame
    from lockfast.challenge.report.rows import Doing, Mark, Row, Saw, Stretch

BARS: dict[Doing, tuple[float, float]] = {
    "holding": (5, 16),
    "perhaps": (5, 16),
    "waiting": (11.5, 3),
    "unanswered": (13, 0),
}
"""Where a bar begins in its row, and how high it is."""


LONGEST_LABEL = 10
LONGEST_TOKEN = 6

SAYS: dict[Doing, str] = {
    "waiting": "waits for",
    "unanswered": "asked, and was never told, for",
    "holding": "holds",
    "perhaps": "may still hold, and proves it no more,",
}


@dataclass(frozen=True, slots=True)
class Strip:
    """Where one client is drawn, and which holds are not drawn as usual."""

    y: int
    frame: Frame
    colours: dict[tuple[str, int], str]


def clients(
    shown: Sequence[Row], findings: Sequence[Finding], frame: Frame, top: dict[str, int]
) -> Iterator[str]:
    """Yield the rows of clients; the holds that show a finding have its colour."""
    colours: dict[tuple[str, int], str] = {}
    for one in sorted(findings, key=lambda one: not one.is_documented):
        for event in one.example:
            colours[event.client, event.hold] = "noted" if one.is_documented else "wrong"
    for row in shown:
        strip = Strip(top[row.client], frame, colours)
        label = f"client {row.client}"
        label = label if len(label) <= LONGEST_LABEL else row.client[-LONGEST_LABEL:]
        yield f'<text x="4" y="{strip.y + 17}">{escape(label)}</text>'
        yield f'<path class="line" d="M{LEFT} {strip.y + ROW - 0.5}H{WIDTH - RIGHT}"/>'
        yield from _bars([one for one in row.stretches if frame.shows(one.begin, one.end)], strip)
        yield from _marks([one for one in row.marks if frame.shows(one.at, one.at)], strip)


def _bars(mine: Sequence[Stretch], strip: Strip) -> Iterator[str]:
    frame = strip.frame
    narrow: defaultdict[tuple[int, Doing, str], list[Stretch]] = defaultdict(list)
    wide: list[tuple[str, Stretch]] = []
    for one in mine:
        is_held = one.doing in {"holding", "perhaps"}
        colour = strip.colours.get((one.client, one.hold), "") if is_held else ""
        if frame.x(one.end) - frame.x(one.begin) < CELL:
            narrow[int(frame.x(one.begin) / CELL), one.doing, colour].append(one)
        else:
            wide.append((colour, one))
    for (_, _, colour), together in narrow.items():
        # What took no time at all is seen only where it is wrong.
        if colour or any(one.end > one.begin for one in together):
            yield _bar(together, strip, colour)
    for colour, one in wide:
        yield _bar([one], strip, colour)
        if one.doing == "holding" and one.token is not None:
            yield from _token(one, strip)


def _bar(together: Sequence[Stretch], strip: Strip, colour: str) -> str:
    first = together[0]
    x, wide = strip.frame.between(first.begin, max(one.end for one in together))
    offset, high = BARS[first.doing]
    y, said = strip.y + offset, _said_of(together, strip)
    if first.doing == "unanswered":
        return f'<path class="unanswered" d="M{x:.1f} {y:g}h{wide:.1f}">{tip(said)}</path>'
    if first.is_inner:
        y, high = y + 4, high - 8
    return rect(f"{first.doing} {colour}".strip(), (x, y, wide, high), said)


def _token(one: Stretch, strip: Strip) -> Iterator[str]:
    """Write the token on its bar where it can be read; its end is what tells it apart."""
    x, wide = strip.frame.between(one.begin, one.end)
    text = str(one.token)
    text = text if len(text) <= LONGEST_TOKEN else f"…{text[-4:]}"
    if wide >= LETTER * len(text) + 8:
        yield f'<text class="token" x="{x + 4:.1f}" y="{strip.y + 16}">{text}</text>'


def _said_of(together: Sequence[Stretch], strip: Strip) -> str:
    first, said = together[0], strip.frame.said
    span = f"from {said(first.begin)} to {said(max(one.end for one in together))}"
    tokens = [one.token for one in together if one.token is not None]
    token = ""
    if tokens:
        token = f", token {tokens[0]}" + (f" to {tokens[-1]}" if len(tokens) > 1 else "")
    return (
        f"client {first.client} {SAYS[first.doing]} {first.name!r}{_times(together)}, {span}{token}"
    )


def _times(together: Sequence[object]) -> str:
    return f" {len(together)} times" if len(together) > 1 else ""


def _marks(marks: Sequence[Mark], strip: Strip) -> Iterator[str]:
    cells: defaultdict[tuple[int, Saw], list[Mark]] = defaultdict(list)
    for one in marks:
        size = CELL if one.saw == "check" else 2 * CELL
        cells[int(strip.frame.x(one.at) / size), one.saw].append(one)
    # What was refused lies above what was only checked.
    for (_, saw), together in sorted(cells.items(), key=lambda cell: cell[0][1] != "check"):
        x, y, first = strip.frame.x(together[0].at), strip.y, together[0]
        if saw == "check":
            yield rect("check", (x - 0.5, y + 18, 1, 3))
            continue
        shape, what = (
            (f"M{x - 3:.1f} {y + 10}l6 6m0 -6l-6 6", "was refused")
            if saw == "refused"
            else (f"M{x:.1f} {y + 8}l5 5l-5 5l-5 -5z", "was told to stop")
        )
        reason = f": {first.reason}" if first.reason else ""
        said = f"client {first.client} {what}{_times(together)}, at {strip.frame.said(first.at)}"
        yield f'<path class="{saw}" d="{shape}">{tip(said + reason)}</path>'


def written(
    writes: Sequence[Write], frame: Frame, top: dict[str, int], *, is_wrong: bool
) -> Iterator[str]:
    """Yield what was written, a dot for some; `is_wrong` is whether a lost one is a fault."""
    seen: set[tuple[str, int, str]] = set()
    for one in writes:
        row = seat(one.client)
        if row not in top or not frame.shows(one.at, one.at):
            continue
        x, y = frame.x(one.at), top[row] + 25
        look, size = ("written", 1.3) if one.is_accepted else ("turned-away", 2.6)
        what = "wrote" if one.is_accepted else "was turned away by the token check"
        if one.is_lost:
            look, size = "wrong" if is_wrong else "noted", 2.6
            what = "overwrote what it had not read"
        key = (row, int(x / (2 * CELL)), look)
        if key not in seen:
            seen.add(key)
            token = "" if one.token is None else f", token {one.token}"
            said = f"client {one.client} {what} at {frame.said(one.at)}{token}"
            at = f'<circle class="{look}" cx="{x:.1f}" cy="{y}" r="{size}">'
            yield f"{at}{tip(said)}</circle>"
