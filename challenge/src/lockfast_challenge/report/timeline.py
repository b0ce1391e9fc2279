"""Draws the timeline of a run as an SVG picture."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from lockfast_challenge.report.figures import natural, rows, seat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockfast_challenge.history import HistoryEvent
    from lockfast_challenge.outcome import RunFinding, Strike, Write
    from lockfast_challenge.report.figures import ClientRow, Doing, Mark, Saw, Stretch


# Coordinates and colours, shared by all parts of a picture.

PICTURE_WIDTH, MARGIN_LEFT, MARGIN_RIGHT = 960, 76, 14
AXIS, LANE, ROW, FOOT = 20, 18, 28, 8
"""Heights of the time axis, the lane of faults, each client's row, and the foot."""
CELL = 3.0
"""Minimum width of a bar or mark; below it, neighbours are drawn together."""
LETTER = 6.3
"""Approximate width of a letter; the real one depends on the viewer's font."""

TIMELINE_STYLE = """
.timeline{--paper:#fff;--ink:#1d2329;--faint:#6b7480;--line:#dfe3e8;--hold:#2b6cb0;--fault:#e0a100;
--quiet:#9aa4af;--wrong:#d3222a;--noted:#8250c4;font:12px system-ui,sans-serif}
@media (prefers-color-scheme:dark){.timeline{--paper:#14181d;--ink:#e6e9ec;--faint:#98a2ad;
--line:#2b323a;--hold:#5aa2ea;--fault:#d99e18;--quiet:#5d6772;--wrong:#ff5c5c;--noted:#b08cf0}}
.timeline .paper{fill:var(--paper)}.timeline text{fill:var(--ink)}
.timeline .faint{fill:var(--faint);font-size:11px}.timeline .line{stroke:var(--line)}
.timeline .fault{fill:var(--fault);opacity:.13}.timeline .struck{fill:var(--fault);opacity:.28}
.timeline .lane{fill:var(--fault);opacity:.55}.timeline .quiet{stroke:var(--quiet)}
.timeline .holding{fill:var(--hold)}.timeline .perhaps{fill:var(--hold);opacity:.38}
.timeline .waiting{fill:var(--quiet)}
.timeline .unanswered{fill:none;stroke:var(--faint);stroke-dasharray:1.5 3;stroke-width:2}
.timeline .check{fill:var(--paper);opacity:.85}
.timeline .refused{stroke:var(--faint);fill:none;stroke-width:1.5}
.timeline .stop{stroke:var(--fault);fill:var(--paper);stroke-width:2}
.timeline .token{fill:var(--paper);font-size:10px}
.timeline .wrong{fill:var(--wrong);opacity:1}.timeline .wrong.perhaps{opacity:.45}
.timeline .noted{fill:var(--noted);opacity:1}.timeline .noted.perhaps{opacity:.45}
.timeline .written{fill:var(--faint)}.timeline .turned-away{fill:var(--paper);stroke:var(--faint)}
.timeline .at{stroke:var(--wrong);stroke-width:1.5;stroke-dasharray:4 3}
.timeline .at.documented{stroke:var(--noted)}
.timeline .kind{font-size:11px}.timeline .middle{text-anchor:middle}
.timeline .number{fill:var(--paper);font-size:10px;font-weight:bold}
"""


@dataclass(frozen=True, slots=True)
class Frame:
    """The span of time that is drawn, and the time at which the axis says 0."""

    start: float
    end: float
    zero: float

    def x(self, at: float) -> float:
        """Return the x coordinate of a time; times outside the frame are drawn at its edge."""
        part = (at - self.start) / max(self.end - self.start, 1e-9)
        return MARGIN_LEFT + min(max(part, 0.0), 1.0) * (PICTURE_WIDTH - MARGIN_LEFT - MARGIN_RIGHT)

    def shows(self, begin: float, end: float) -> bool:
        """Return whether any part of the span is in the frame."""
        return end >= self.start and begin <= self.end

    def said(self, at: float) -> str:
        """Return a time as text."""
        return f"{at - self.zero:.3f} s"

    def between(self, begin: float, end: float, *, least: float = 0.8) -> tuple[float, float]:
        """Return the x coordinate and the width of a span, which is wide enough to be seen."""
        x = self.x(begin)
        return x, max(self.x(end) - x, least)

    def time_at(self, x: float) -> float:
        """Return the time that is drawn at an x coordinate."""
        return self.start + (x - MARGIN_LEFT) / (PICTURE_WIDTH - MARGIN_LEFT - MARGIN_RIGHT) * (
            self.end - self.start
        )


Box = tuple[float, float, float, float]
"""Left edge, top edge, width and height."""


def rect(look: str, box: Box, said: str = "") -> str:
    """Return a rectangle; `said` is its tooltip."""
    x, y, wide, high = box
    at = f'<rect class="{look}" x="{x:.1f}" y="{y:g}" width="{wide:.1f}" height="{high:g}"'
    return f"{at}>{tip(said)}</rect>" if said else f"{at}/>"


def tip(said: str) -> str:
    """Return a tooltip."""
    return f"<title>{escape(said)}</title>"


# The rows of clients: bars, marks and writes.
#
# Bars and marks that are too narrow to be seen are drawn together, so that a picture stays small
# and readable however much happened.

BARS: dict[Doing, tuple[float, float]] = {
    "holding": (5, 16),
    "perhaps": (5, 16),
    "waiting": (11.5, 3),
    "unanswered": (13, 0),
}
"""Top edge of a bar within its row, and the height of the bar."""


LONGEST_LABEL = 10
LONGEST_TOKEN = 6

ACTIVITY_TEXT: dict[Doing, str] = {
    "waiting": "waits for",
    "unanswered": "asked, and was never told, for",
    "holding": "holds",
    "perhaps": "may still hold, and proves it no more,",
}


@dataclass(frozen=True, slots=True)
class Strip:
    """The position of one client's row, and the holds that have a special colour."""

    y: int
    frame: Frame
    colours: dict[tuple[str, int], str]


def clients(
    shown: Sequence[ClientRow], findings: Sequence[RunFinding], frame: Frame, top: dict[str, int]
) -> Iterator[str]:
    """Yield the rows of clients; holds that show a finding have the colour of the finding."""
    colours: dict[tuple[str, int], str] = {}
    for one in sorted(findings, key=lambda one: not one.is_documented):
        for event in one.example:
            colours[event.client, event.hold] = "noted" if one.is_documented else "wrong"
    for row in shown:
        strip = Strip(top[row.client], frame, colours)
        label = f"client {row.client}"
        label = label if len(label) <= LONGEST_LABEL else row.client[-LONGEST_LABEL:]
        yield f'<text x="4" y="{strip.y + 17}">{escape(label)}</text>'
        y, right = strip.y + ROW - 0.5, PICTURE_WIDTH - MARGIN_RIGHT
        yield f'<path class="line" d="M{MARGIN_LEFT} {y}H{right}"/>'
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
        # Stretches that took no time at all are drawn only if they show a finding.
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
    y, said = strip.y + offset, _tooltip_of(together, strip)
    if first.doing == "unanswered":
        return f'<path class="unanswered" d="M{x:.1f} {y:g}h{wide:.1f}">{tip(said)}</path>'
    if first.is_inner:
        y, high = y + 4, high - 8
    return rect(f"{first.doing} {colour}".strip(), (x, y, wide, high), said)


def _token(one: Stretch, strip: Strip) -> Iterator[str]:
    """Write the token on its bar if there is room.

    A long token is shortened to its last digits, in which tokens differ.
    """
    x, wide = strip.frame.between(one.begin, one.end)
    text = str(one.token)
    text = text if len(text) <= LONGEST_TOKEN else f"…{text[-4:]}"
    if wide >= LETTER * len(text) + 8:
        yield f'<text class="token" x="{x + 4:.1f}" y="{strip.y + 16}">{text}</text>'


def _tooltip_of(together: Sequence[Stretch], strip: Strip) -> str:
    first, said = together[0], strip.frame.said
    span = f"from {said(first.begin)} to {said(max(one.end for one in together))}"
    tokens = [one.token for one in together if one.token is not None]
    token = ""
    if tokens:
        token = f", token {tokens[0]}" + (f" to {tokens[-1]}" if len(tokens) > 1 else "")
    activity = f"{ACTIVITY_TEXT[first.doing]} {first.name!r}{_times(together)}"
    return f"client {first.client} {activity}, {span}{token}"


def _times(together: Sequence[object]) -> str:
    return f" {len(together)} times" if len(together) > 1 else ""


def _marks(marks: Sequence[Mark], strip: Strip) -> Iterator[str]:
    cells: defaultdict[tuple[int, Saw], list[Mark]] = defaultdict(list)
    for one in marks:
        size = CELL if one.saw == "check" else 2 * CELL
        cells[int(strip.frame.x(one.at) / size), one.saw].append(one)
    # Checks are drawn first, so that the other marks lie above them.
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
    """Yield dots for the writes; writes at the same place share a dot.

    `is_wrong` says whether a lost update counts as a fault of the lock.
    """
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


MOST_ROWS = 24
TICKS = 8
TICK_MIN_SECONDS = 1e-3
ROUND_STEPS = (1, 2, 5, 10)
STRUCK = re.compile(r"\bclient (\w+)")
"""Finds the client that a fault struck in the fault's description of its target."""


def timeline(
    events: Sequence[HistoryEvent],
    strikes: Sequence[Strike] = (),
    *,
    findings: Sequence[RunFinding] = (),
    writes: Sequence[Write] = (),
    start: float | None = None,
    end: float | None = None,
    zero: float | None = None,
    ttl: float | None = None,
    title: str = "Who held, who waited and what struck",
) -> str:
    """Return the picture of a history, or of its part from `start` to `end`.

    `zero` is the time at which the axis says 0, by default `start`. If `ttl` is given, a hold is
    drawn for at most one ttl after its last proof.
    """
    times = [event.at for event in events]
    start = min(times, default=0.0) if start is None else start
    last = max(times, default=start)
    end = max(last if end is None else end, start + TICK_MIN_SECONDS)
    return drawn(
        rows(events, end=max(last, end), ttl=ttl),
        strikes,
        findings=list(enumerate(findings, 1)),
        writes=writes,
        frame=Frame(start, end, start if zero is None else zero),
        title=title,
    )


def drawn(
    of_all: Sequence[ClientRow],
    strikes: Sequence[Strike],
    *,
    findings: Sequence[tuple[int, RunFinding]],
    writes: Sequence[Write],
    frame: Frame,
    title: str,
) -> str:
    """Return the picture of rows that are already computed, and of numbered findings."""
    found = [one for _, one in findings]
    shown = _chosen(of_all, found)
    top = {row.client: AXIS + LANE + 4 + ROW * number for number, row in enumerate(shown)}
    bottom = AXIS + LANE + 4 + ROW * len(shown)
    left_out = len(of_all) - len(shown)
    height = bottom + FOOT + (16 if left_out else 0)
    inside = [one for one in strikes if frame.shows(one.began, one.ended)]
    parts = [
        f'<rect class="paper" width="{PICTURE_WIDTH}" height="{height}"/>',
        *_bands(inside, frame, top, bottom),
        *_axis(frame, bottom),
        *_lane(inside, frame),
        *clients(shown, found, frame, top),
        *written(writes, frame, top, is_wrong=_is_lost_wrong(found)),
        *_flags(findings, frame, bottom),
    ]
    if left_out:
        said = f"and {left_out} more clients, not drawn"
        parts.append(f'<text class="faint" x="{MARGIN_LEFT}" y="{height - 7}">{said}</text>')
    return (
        '<svg class="timeline" xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {PICTURE_WIDTH} {height}" '
        f'width="{PICTURE_WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">'
        f"<style>{TIMELINE_STYLE}</style>{''.join(parts)}</svg>"
    )


def _chosen(of_all: Sequence[ClientRow], findings: Sequence[RunFinding]) -> list[ClientRow]:
    """Return the rows to draw; clients with a finding are chosen before all others."""
    involved = {seat(client) for one in findings for client in one.clients}
    by_rank = sorted(of_all, key=lambda row: row.client not in involved)
    return sorted(by_rank[:MOST_ROWS], key=lambda row: natural(row.client))


# -- background ------------------------------------------------------------------------


def _bands(
    strikes: Iterable[Strike], frame: Frame, top: dict[str, int], bottom: int
) -> Iterator[str]:
    for one in strikes:
        x, wide = frame.between(one.began, one.ended, least=2.0)
        yield rect("fault", (x, AXIS, wide, bottom - AXIS))
        struck = STRUCK.search(one.target)
        if struck is not None and struck[1] in top:
            yield rect("struck", (x, top[struck[1]], wide, ROW))


def _axis(frame: Frame, bottom: int) -> Iterator[str]:
    step = _step(frame.end - frame.start)
    digits = max(0, -floor(log10(step)))
    yield '<text class="faint" x="4" y="13">seconds</text>'
    first = ceil((frame.start - frame.zero) / step)
    last = floor((frame.end - frame.zero) / step)
    for number in range(first, last + 1):
        x = frame.x(frame.zero + number * step)
        yield f'<path class="line" d="M{x:.1f} {AXIS}V{bottom}"/>'
        said = f"{number * step:.{digits}f}"
        yield f'<text class="faint middle" x="{x:.1f}" y="13">{said}</text>'


def _step(span: float) -> float:
    """Return a round number of seconds that divides a span into about TICKS parts."""
    raw = span / TICKS
    power = 10.0 ** floor(log10(raw))
    return next((power * one for one in ROUND_STEPS if power * one >= raw), power * ROUND_STEPS[-1])


def _lane(strikes: Sequence[Strike], frame: Frame) -> Iterator[str]:
    """Draw the names of the faults, and the quiet stretches between them."""
    yield f'<text class="faint" x="4" y="{AXIS + 13}">faults</text>'
    quiet_from = frame.start
    for number, one in enumerate(strikes):
        x, wide = frame.between(one.began, one.ended, least=2.0)
        yield from _quiet(frame, quiet_from, one.began)
        quiet_from = max(quiet_from, one.ended)
        length = f"{one.ended - one.began:.2f} s"
        said = f"{one.kind}: {one.target}, from {frame.said(one.began)} for {length}"
        yield rect("lane", (x, AXIS + 2, wide, LANE - 4), said)
        is_last = number + 1 == len(strikes)
        room = PICTURE_WIDTH - MARGIN_RIGHT if is_last else frame.x(strikes[number + 1].began)
        if room - x >= LETTER * len(one.kind) + 8:
            yield f'<text class="kind" x="{x + 4:.1f}" y="{AXIS + 13}">{escape(one.kind)}</text>'
            quiet_from = max(quiet_from, frame.time_at(x + LETTER * len(one.kind) + 12))
    yield from _quiet(frame, quiet_from, frame.end)


def _quiet(frame: Frame, begin: float, end: float) -> Iterator[str]:
    x, wide = frame.between(begin, end)
    if end <= begin or wide < CELL:
        return
    yield f'<path class="quiet" d="M{x:.1f} {AXIS + LANE / 2:g}h{wide:.1f}"/>'
    if wide > LETTER * len("quiet") + 24:
        middle = x + wide / 2
        yield rect("paper", (middle - 20, AXIS + 3, 40, 12))
        yield f'<text class="faint middle" x="{middle:.1f}" y="{AXIS + 13}">quiet</text>'


# -- what is wrong ---------------------------------------------------------------------


def _is_lost_wrong(findings: Iterable[RunFinding]) -> bool:
    return any(one.kind == "lost update" and not one.is_documented for one in findings)


def _flags(findings: Iterable[tuple[int, RunFinding]], frame: Frame, bottom: int) -> Iterator[str]:
    """Draw a numbered line at each finding; findings in the same place share one line."""
    last = -CELL
    for number, one in sorted(findings, key=lambda pair: (pair[1].is_documented, pair[1].at)):
        x = frame.x(one.at)
        if not frame.shows(one.at, one.at) or abs(x - last) < CELL:
            continue
        last = x
        documented = " documented" if one.is_documented else ""
        colour = "noted" if one.is_documented else "wrong"
        wide = 6 * len(str(number)) + 8
        yield (
            f"<g>{tip(f'{number}. {one.kind}: {one.message}')}"
            f'<path class="at{documented}" d="M{x:.1f} {AXIS + LANE}V{bottom}"/>'
            f"{rect(colour, (x - wide / 2, bottom - 6, wide, 13))}"
            f'<text class="number middle" x="{x:.1f}" y="{bottom + 4}">{number}</text>'
            "</g>"
        )
