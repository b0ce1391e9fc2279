"""Reports the figures of a suite: as tables on the screen, and on request in docs/benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs" / "benchmarks"


@dataclass
class Chart:
    """A bar chart; shorter is better unless the title says otherwise."""

    name: str
    title: str
    values: Mapping[str, float]
    unit: str

    def svg(self) -> str:
        """Return the chart as SVG; the first bar, which is ours, has its own colour."""
        most = max(self.values.values())
        title = f"{escape(self.title)}, {escape(self.unit)}"
        lines = [f'<text x="0" y="14" font-weight="bold">{title}</text>']
        for row, (name, value) in enumerate(self.values.items()):
            y, width = 26 + 24 * row, max(1.0, 340 * value / most)
            colour = "#0a6" if row == 0 else "#999"
            lines += [
                f'<text x="0" y="{y + 14}">{escape(name)}</text>',
                f'<rect x="170" y="{y}" width="{width:.0f}" height="18" fill="{colour}"/>',
                f'<text x="{176 + width:.0f}" y="{y + 14}">{value:,.4g}</text>',
            ]
        height = 30 + 24 * len(self.values)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 {height}" width="600" '
            f'height="{height}" font-family="sans-serif" font-size="13">'
            f'<rect width="600" height="{height}" fill="#fff"/>'
        )
        return "\n".join([head, *lines, "</svg>", ""])


@dataclass
class Report:
    """The report of one suite."""

    suite: str
    title: str
    parts: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)

    def say(self, text: str) -> None:
        """Add a paragraph."""
        print(f"\n{text}")
        self.parts.append(text)

    def table(self, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        print(f"\n{title}")
        for row in (head, *rows):
            cells = [row[0].ljust(widths[0])]
            cells += [one.rjust(width) for one, width in zip(row[1:], widths[1:], strict=True)]
            print("  " + "  ".join(cells))
        rule = "|".join(["---", *["---:"] * (len(head) - 1)])
        body = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        self.parts.append(f"## {title}\n\n| {' | '.join(head)} |\n|{rule}|\n{body}")

    def chart(self, name: str, title: str, values: Mapping[str, float], unit: str) -> None:
        """Add a picture."""
        self.charts.append(Chart(f"{self.suite}-{name}", title, values, unit))
        self.parts.append(f"![{title}]({self.suite}-{name}.svg)")

    def write(self) -> None:
        """Write the page and its pictures."""
        DOCS.mkdir(parents=True, exist_ok=True)
        page = "\n\n".join([f"# {self.title}", *self.parts])
        (DOCS / f"{self.suite}.md").write_text(page + "\n", encoding="utf-8")
        for chart in self.charts:
            (DOCS / f"{chart.name}.svg").write_text(chart.svg(), encoding="utf-8")
