"""Where a time is drawn, and with which colours; all parts of a picture ask this."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT = 960, 76, 14
AXIS, LANE, ROW, FOOT = 20, 18, 28, 8
"""How high the parts are: the seconds, the faults, each client, and what is below."""
CELL = 3.0
"""What is narrower than this is drawn together with its neighbours."""
LETTER = 6.3
"""How wide a letter is, about: there is nobody to ask."""

STYLE = """
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
    """From when to when is drawn, and which time is called 0."""

    start: float
    end: float
    zero: float

    def x(self, at: float) -> float:
        """Return where a time is drawn; what is outside is drawn at the edge."""
        part = (at - self.start) / max(self.end - self.start, 1e-9)
        return LEFT + min(max(part, 0.0), 1.0) * (WIDTH - LEFT - RIGHT)

    def shows(self, begin: float, end: float) -> bool:
        """Whether any of it is inside."""
        return end >= self.start and begin <= self.end

    def said(self, at: float) -> str:
        """Return a time in words."""
        return f"{at - self.zero:.3f} s"

    def between(self, begin: float, end: float, *, least: float = 0.8) -> tuple[float, float]:
        """Return where it begins and how wide it is, never too narrow to be seen."""
        x = self.x(begin)
        return x, max(self.x(end) - x, least)

    def time_at(self, x: float) -> float:
        """Return which time is drawn there."""
        return self.start + (x - LEFT) / (WIDTH - LEFT - RIGHT) * (self.end - self.start)


Box = tuple[float, float, float, float]
"""Where it begins, from the left and from above, and how wide and high it is."""


def rect(look: str, box: Box, said: str = "") -> str:
    """Return a box; `said` is what it tells whoever points at it."""
    x, y, wide, high = box
    at = f'<rect class="{look}" x="{x:.1f}" y="{y:g}" width="{wide:.1f}" height="{high:g}"'
    return f"{at}>{tip(said)}</rect>" if said else f"{at}/>"


def tip(said: str) -> str:
    """Return what is told to whoever points at it."""
    return f"<title>{escape(said)}</title>"
