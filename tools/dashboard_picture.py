"""A dashboard as a picture: its panels on their grid, each with its query results.

One self-contained SVG, for light and dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import inf, isnan, log10
from typing import Any

Labels = tuple[tuple[str, str], ...]
Points = Sequence[tuple[float, float]]
Answers = Mapping[str, Mapping[Labels, Points]]
"""Maps each query to its result, which maps each series to its points."""

WIDTH, CELL_WIDTH, CELL_HEIGHT = 960, 40, 28
GAP, LEFT, RIGHT, TOP, AXIS, TICK = 8, 58, 22, 34, 22, 16
LEGEND_LINE, LETTER, COLOURS = 17, 6.6, 8

STYLE = """\
text{font:12px system-ui,"Segoe UI",Roboto,Helvetica,Arial,sans-serif;fill:#1f2328}
.t{font-weight:600;font-size:13px}.d{fill:#59636e;font-size:11px}
.p{fill:#fff;stroke:#d0d7de}.g{stroke:#d8dee4;fill:none}
.m{stroke:#59636e;stroke-dasharray:3 3;fill:none}
.s{fill:none;stroke-width:1.6;stroke-linejoin:round}.b{fill:none;stroke-width:4}
.c0{stroke:#0969da}.c1{stroke:#bc4c00}.c2{stroke:#1a7f37}.c3{stroke:#8250df}.c4{stroke:#cf222e}
.c5{stroke:#9a6700}.c6{stroke:#bf3989}.c7{stroke:#57606a}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.d{fill:#a3adb8}
.p{fill:#14181d;stroke:#3d444d}.g{stroke:#2c333b}.m{stroke:#a3adb8}
.c0{stroke:#58a6ff}.c1{stroke:#f0883e}.c2{stroke:#3fb950}.c3{stroke:#bc8cff}.c4{stroke:#ff7b72}
.c5{stroke:#d29922}.c6{stroke:#f778ba}.c7{stroke:#b1bac4}}"""


@dataclass(frozen=True, slots=True)
class Span:
    """Start, end and step of the values, and a letter for each event in between."""

    start: float
    end: float
    step: float
    marks: Sequence[tuple[float, str]] = ()


def picture(board: Mapping[str, Any], answers: Answers, span: Span, *, about: str) -> str:
    """Return the whole dashboard as SVG; `about` describes it for screen readers."""
    rows = max(one["gridPos"]["y"] + one["gridPos"]["h"] for one in board["panels"])
    box = f'viewBox="0 0 {WIDTH} {rows * CELL_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" aria-labelledby="t d">',
        f'<title id="t">{escape(board["title"])}</title><desc id="d">{escape(about)}</desc>',
        f"<style>\n{STYLE}\n</style>",
    ]
    for panel in board["panels"]:
        parts.extend(_panel(panel, answers, span))
    return "\n".join([*parts, "</svg>"])


def _panel(panel: Mapping[str, Any], answers: Answers, span: Span) -> Iterator[str]:
    place = panel["gridPos"]
    width, height = place["w"] * CELL_WIDTH - GAP, place["h"] * CELL_HEIGHT - GAP
    yield f'<g transform="translate({place["x"] * CELL_WIDTH} {place["y"] * CELL_HEIGHT})">'
    yield f'<rect class="p" x=".5" y=".5" width="{width}" height="{height}" rx="5"/>'
    yield f'<text class="t" x="10" y="20">{escape(panel["title"])}</text>'
    series = sorted(_series(panel, answers))
    legend = _legend([name for name, _ in series], width)
    bottom = height - AXIS - LEGEND_LINE * len(legend) - 2
    defaults = panel["fieldConfig"]["defaults"]
    most = _round_up(max((v for _, points in series for _, v in points if not isnan(v)), default=0))
    plot = Plot(span, most, LEFT, width - RIGHT, TOP, bottom)
    yield from plot.axes(defaults["unit"])
    bars = defaults["custom"]["drawStyle"] == "bars"
    for number, (_, points) in enumerate(series):
        drawn = plot.bars(points) if bars else plot.line(points)
        if drawn:
            yield f'<path class="{"b" if bars else "s"} c{number % COLOURS}" d="{drawn}"/>'
    yield from _keys(legend, bottom + AXIS + 10)
    yield "</g>"


def _keys(legend: list[list[tuple[int, float, str]]], top: float) -> Iterator[str]:
    for line, names in enumerate(legend):
        y = top + LEGEND_LINE * line
        for number, x, name in names:
            yield f'<path class="b c{number % COLOURS}" d="M{x:.0f} {y - 4}h10"/>'
            yield f'<text class="d" x="{x + 14:.0f}" y="{y}">{escape(name)}</text>'


def _series(panel: Mapping[str, Any], answers: Answers) -> Iterator[tuple[str, Points]]:
    for target in panel["targets"]:
        for labels, points in answers[target["expr"]].items():
            yield _named(target["legendFormat"], dict(labels)), points


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda one: labels[one[1]], legend)


def _legend(names: Sequence[str], width: float) -> list[list[tuple[int, float, str]]]:
    """Return the lines of the legend: number, x position and name of each series."""
    lines: list[list[tuple[int, float, str]]] = []
    x = width
    for number, name in enumerate(names):
        wide = 24 + LETTER * len(name)
        if x + wide > width:
            lines.append([])
            x = 10
        lines[-1].append((number, x, name))
        x += wide
    return lines


@dataclass(frozen=True, slots=True)
class Plot:
    """Maps times and values to positions on a panel."""

    span: Span
    most: float
    left: float
    right: float
    top: float
    bottom: float

    def x(self, at: float) -> float:
        """Return the x position of a time."""
        share = (at - self.span.start) / (self.span.end - self.span.start)
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the y position of a value."""
        return self.bottom - value / self.most * (self.bottom - self.top)

    def line(self, points: Points) -> str:
        """Return a path through the values, with gaps where values are missing."""
        path, before = [], -inf
        for at, value in points:
            if not isnan(value):
                pen = "L" if at - before < 1.5 * self.span.step else "M"
                path.append(f"{pen}{self.x(at):.0f} {self.y(value):.1f}")
                before = at
        return "".join(path)

    def bars(self, points: Points) -> str:
        """Return a path with one stroke for each value above zero."""
        return "".join(
            f"M{self.x(at):.0f} {self.bottom:.0f}V{self.y(value):.1f}"
            for at, value in points
            if value > 0
        )

    def axes(self, unit: str) -> Iterator[str]:
        """Yield the grid with its labels, and the marks of the events."""
        for value in (0.0, self.most / 2, self.most):
            y = self.y(value)
            yield f'<path class="g" d="M{self.left} {y:.0f}H{self.right}"/>'
            label = _label(value, unit)
            yield f'<text class="d" x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{label}</text>'
        for seconds in range(0, int(self.span.end - self.span.start) + 1, 60):
            at = f'x="{self.x(self.span.start + seconds):.0f}" y="{self.bottom + TICK:.0f}"'
            yield f'<text class="d" {at} text-anchor="middle">{seconds // 60} min</text>'
        for at, letter in self.span.marks:
            x = self.x(at)
            yield f'<path class="m" d="M{x:.0f} {self.top}V{self.bottom:.0f}"/>'
            where = f'x="{x:.0f}" y="{self.top - 3}" text-anchor="middle"'
            yield f'<text class="d" {where}>{letter}</text>'


def _round_up(value: float) -> float:
    """Return the next number that is easy to halve: 1, 2, 4, 6 or 10 times a power of ten."""
    if value <= 0:
        return 1.0
    power = 10.0 ** int(log10(value) // 1)
    return next(step * power for step in (1, 2, 4, 6, 10) if step * power >= value * 0.999)


def _label(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value:g} s" if value >= 1 or not value else f"{value * 1000:g} ms"
    return f"{value:g}/s" if unit == "ops" else f"{value:g}"
