"""Who held, who waited and what struck, as a picture: one SVG that needs nothing beside itself.

A row is a client: a thin line waits, a thick bar holds, a pale one may still hold. Behind them
are the faults; in front of them, numbered, what is wrong.
"""

from __future__ import annotations

import re
from html import escape
from math import ceil, floor, log10
from typing import TYPE_CHECKING

from lockfast.challenge.report.bars import clients, written
from lockfast.challenge.report.frame import (
    AXIS,
    CELL,
    FOOT,
    LANE,
    LEFT,
    LETTER,
    RIGHT,
    ROW,
    STYLE,
    WIDTH,
    Frame,
    rect,
    tip,
)
from lockfast.challenge.report.rows import natural, rows, seat

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockfast.challenge.history import Event
    from lockfast.challenge.outcome import Finding, Strike, Write
    from lockfast.challenge.report.rows import Row

MOST_ROWS = 24
TICKS = 8
SHORTEST = 1e-3
ROUND = (1, 2, 5, 10)
STRUCK = re.compile(r"\bclient (\w+)")
"""How a fault says whom it struck."""


def timeline(
    events: Sequence[Event],
    strikes: Sequence[Strike] = (),
    *,
    findings: Sequence[Finding] = (),
    writes: Sequence[Write] = (),
    start: float | None = None,
    end: float | None = None,
    zero: float | None = None,
    ttl: float | None = None,
    title: str = "Who held, who waited and what struck",
) -> str:
    """Return the picture of a history, or of the part of it from `start` to `end`.

    `zero` is the time that the axis calls 0, by default `start`. What a client may have held
    without a proof is drawn for a ttl at most, if one is given.
    """
    times = [event.at for event in events]
    start = min(times, default=0.0) if start is None else start
    last = max(times, default=start)
    end = max(last if end is None else end, start + SHORTEST)
    return drawn(
        rows(events, end=max(last, end), ttl=ttl),
        strikes,
        findings=list(enumerate(findings, 1)),
        writes=writes,
        frame=Frame(start, end, start if zero is None else zero),
        title=title,
    )


def drawn(
    of_all: Sequence[Row],
    strikes: Sequence[Strike],
    *,
    findings: Sequence[tuple[int, Finding]],
    writes: Sequence[Write],
    frame: Frame,
    title: str,
) -> str:
    """Return the picture of rows that were made before; findings come with their numbers."""
    found = [one for _, one in findings]
    shown = _chosen(of_all, found)
    top = {row.client: AXIS + LANE + 4 + ROW * number for number, row in enumerate(shown)}
    bottom = AXIS + LANE + 4 + ROW * len(shown)
    left_out = len(of_all) - len(shown)
    height = bottom + FOOT + (16 if left_out else 0)
    inside = [one for one in strikes if frame.shows(one.began, one.ended)]
    parts = [
        f'<rect class="paper" width="{WIDTH}" height="{height}"/>',
        *_bands(inside, frame, top, bottom),
        *_axis(frame, bottom),
        *_lane(inside, frame),
        *clients(shown, found, frame, top),
        *written(writes, frame, top, is_wrong=_is_lost_wrong(found)),
        *_flags(findings, frame, bottom),
    ]
    if left_out:
        said = f"and {left_out} more clients, not drawn"
        parts.append(f'<text class="faint" x="{LEFT}" y="{height - 7}">{said}</text>')
    return (
        f'<svg class="timeline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>"
    )


def _chosen(of_all: Sequence[Row], findings: Sequence[Finding]) -> list[Row]:
    """Return the rows to draw: those who are in a finding before the others."""
    involved = {seat(client) for one in findings for client in one.clients}
    by_rank = sorted(of_all, key=lambda row: row.client not in involved)
    return sorted(by_rank[:MOST_ROWS], key=lambda row: natural(row.client))


# -- what lies behind ------------------------------------------------------------------


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
    """Return a round number of seconds that makes some ticks of a span."""
    raw = span / TICKS
    power = 10.0 ** floor(log10(raw))
    return next((power * one for one in ROUND if power * one >= raw), power * ROUND[-1])


def _lane(strikes: Sequence[Strike], frame: Frame) -> Iterator[str]:
    """Name the faults, and the quiet stretches between them."""
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
        room = WIDTH - RIGHT if is_last else frame.x(strikes[number + 1].began)
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


def _is_lost_wrong(findings: Iterable[Finding]) -> bool:
    return any(one.kind == "lost update" and not one.is_documented for one in findings)


def _flags(findings: Iterable[tuple[int, Finding]], frame: Frame, bottom: int) -> Iterator[str]:
    """Draw a numbered line where something was found; of several in one place, the first."""
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
