"""The report as one HTML page that needs no other file."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil
from typing import TYPE_CHECKING

import lockfast
from lockfast_challenge.report.figures import figures, rows, seat
from lockfast_challenge.report.timeline import Frame, drawn
from lockfast_challenge.report.wording import (
    COSTS,
    NO_PROOF,
    NOT_FIXED,
    again,
    costs,
    counted,
    facts,
    headline,
    many,
    message,
    numbered,
    seconds,
    told,
    too_short,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lockfast_challenge.history import HistoryEvent
    from lockfast_challenge.outcome import Outcome, RunFinding
    from lockfast_challenge.report.figures import ClientRow, RunFigures


# The style of the page, for light and dark, a wide screen, a narrow screen and paper.

PAGE_STYLE = """
:root{color-scheme:light dark;--paper:#fff;--soft:#f4f6f8;--ink:#1d2329;--faint:#5d6772;
--line:#dfe3e8;--good:#1a7f4b;--bad:#d3222a;--open:#9a6700;--noted:#8250c4}
@media (prefers-color-scheme:dark){:root{--paper:#14181d;--soft:#1d232a;--ink:#e6e9ec;
--faint:#98a2ad;--line:#2b323a;--good:#4cc38a;--bad:#ff5c5c;--open:#e0a100;--noted:#b08cf0}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1040px;padding:24px 20px 48px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,sans-serif}
h1{font-size:22px;margin:0 0 12px}h2{font-size:18px;margin:36px 0 8px}
h3{font-size:15px;margin:24px 0 6px}p{margin:6px 0;max-width:72ch}
.faint{color:var(--faint)}.small{font-size:13px}
.verdict{border-left:6px solid;padding:8px 14px;max-width:none;background:var(--soft);
border-radius:4px}
.verdict b{font-size:20px;margin-right:8px}
.valid{border-color:var(--good)}.valid b{color:var(--good)}
.invalid{border-color:var(--bad)}.invalid b{color:var(--bad)}
.unknown{border-color:var(--open)}.unknown b{color:var(--open)}
.wrong{color:var(--bad)}.noted{color:var(--noted)}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:8px;margin:12px 0}
dl div{background:var(--soft);border-radius:4px;padding:7px 11px;min-width:0}
dl .broad{grid-column:1/-1}
dt{color:var(--faint);font-size:12px}dd{margin:0;font-weight:600;overflow-wrap:anywhere}
.setting dd{font-weight:400}
.scroll{overflow-x:auto;border:1px solid var(--line);border-radius:4px;margin:8px 0}
.scroll svg{display:block;min-width:640px;width:100%;height:auto}
table{border-collapse:collapse;width:100%;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:4px 10px;text-align:left;border-bottom:1px solid var(--line);white-space:nowrap}
td.long{white-space:normal}tr:last-child td{border-bottom:0}
th{color:var(--faint);font-weight:600}td.figure,th.figure{text-align:right}
tr.shows td{font-weight:600}tr.shows td:first-child{box-shadow:inset 3px 0 var(--bad)}
tr.shows.documented td:first-child{box-shadow:inset 3px 0 var(--noted)}
tr.beside td{color:var(--faint)}
code,pre{font:13px ui-monospace,monospace;background:var(--soft);border-radius:4px}
pre{padding:10px 12px;white-space:pre-wrap;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--faint)}
.key{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:13px;color:var(--faint);margin:6px 0}
.key i{display:inline-block;width:22px;height:11px;margin-right:6px;border-radius:2px}
@media print{.scroll{overflow:visible}.scroll svg{min-width:0}details{display:block}}
"""


# The parts of a run that are drawn: all of a short run, and the important parts of a long run.

WINDOWS_MAX = 12
WINDOW_TTLS, WINDOW_MIN_SECONDS = 8.0, 4.0
"""Length of a window in ttls, and its minimum in seconds."""
BEFORE_TTLS = 4.0
"""How many ttls are shown before a finding without events, such as a stall."""
WINDOW_MARGIN_FRACTION = 0.15
"""Margin before and after the events of a finding, as a fraction of the events' time span."""


@dataclass(frozen=True, slots=True)
class DrawnWindow:
    """The part of a run that one picture shows."""

    start: float
    end: float
    name: str = ""
    """The name whose clients are drawn; empty for all clients."""


def windows(outcome: Outcome) -> list[DrawnWindow]:
    """Return the windows to draw, in order of time; never more than WINDOWS_MAX.

    In a long run, windows in which something is wrong are chosen first, then windows with the first
    finding or the first strike of a kind.
    """
    whole = outcome.ended - outcome.began
    if whole <= 0:
        return []
    length = max(WINDOW_MIN_SECONDS, WINDOW_TTLS * outcome.setting.ttl)
    count = ceil(whole / length)
    length = whole / count if count <= WINDOWS_MAX else length
    names = list(dict.fromkeys(event.name for event in outcome.events)) or [""]
    if len(names) == 1 and count <= WINDOWS_MAX:
        chosen = [(number, names[0]) for number in range(count)]
    else:
        found = ((int((at - outcome.began) / length), name) for at, name in _moments(outcome))
        worth = ((number, name or names[0]) for number, name in found if 0 <= number < count)
        chosen = sorted(list(dict.fromkeys(worth))[:WINDOWS_MAX])
    return [
        DrawnWindow(
            outcome.began + number * length,
            min(outcome.began + (number + 1) * length, outcome.ended),
            name,
        )
        for number, name in chosen
    ]


def _moments(outcome: Outcome) -> Iterator[tuple[float, str]]:
    """Yield the times that are worth showing, and of which name; the most important first."""
    names = names_of_clients(outcome.events)
    found = [
        (one, names.get(one.clients[0], "") if one.clients else "") for one in outcome.findings
    ]
    yield from ((one.at, name) for one, name in found if not one.is_documented)
    yield from _firsts((one.kind, one.at, name) for one, name in found)
    yield from _firsts((one.kind, one.began, one.name) for one in outcome.strikes)
    yield outcome.began, ""
    yield from ((strike.began, strike.name) for strike in outcome.strikes)


def _firsts(moments: Iterable[tuple[str, float, str]]) -> Iterator[tuple[float, str]]:
    """Yield the first time of each kind."""
    seen: set[str] = set()
    for kind, at, name in moments:
        if kind not in seen:
            seen.add(kind)
            yield at, name


def names_of_clients(events: Iterable[HistoryEvent]) -> dict[str, str]:
    """Return the name for which each life of a client contends."""
    return {event.client: event.name for event in events}


def around(finding: RunFinding, *, ttl: float, name: str = "") -> DrawnWindow:
    """Return the window of a finding: its events, and some time before and after them.

    The time that its clients had waited is left out, because it may be most of the run.
    """
    if not finding.example:
        return DrawnWindow(finding.at - BEFORE_TTLS * ttl, finding.at + ttl, name)
    waits = {("acquire", "invoked")}
    seen = [event.at for event in finding.example if (event.act, event.phase) not in waits]
    times = [finding.at, *seen]
    margin = max(WINDOW_MARGIN_FRACTION * (max(times) - min(times)), 0.05)
    return DrawnWindow(min(times) - margin, max(times) + margin, name)


MOST_FINDINGS = 12
MOST_OF_A_KIND = 4
MOST_EVENTS = 60
MOST_STRIKES = 400

LEGEND = (
    ("var(--faint);height:3px;vertical-align:middle", "waits"),
    ("#4a8bd0", "holds: certain"),
    ("#4a8bd0;opacity:.4", "may still hold"),
    ("#e0a100;opacity:.5", "a fault strikes"),
    ("var(--bad)", "wrong"),
    ("var(--noted)", "as documented"),
)


def page(outcome: Outcome, *, where: str = "", command: str = "") -> str:
    """Return the report as an HTML page.

    `where` is the URL of the deployment, without secrets, if the deployment has a URL; `command`
    repeats the run.
    """
    return _Page(outcome, where, command or again(outcome.setting, where=where)).whole()


class _Page:
    def __init__(self, outcome: Outcome, where: str, command: str) -> None:
        self._outcome = outcome
        self._where = where
        self._command = command
        self._figures: RunFigures = figures(outcome)
        self._rows: list[ClientRow] = rows(
            outcome.events, end=outcome.ended, ttl=outcome.setting.ttl
        )
        self._found = numbered(outcome)
        self._names: dict[str, str] = names_of_clients(outcome.events)

    def whole(self) -> str:
        title = f"Challenge of {self._outcome.setting.store}: {self._outcome.verdict}"
        parts = [
            *self._head(),
            *self._findings(),
            *self._pictures(),
            *self._faults(),
            *self._again(),
        ]
        return (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width,initial-scale=1">'
            f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head><body>\n"
            + "\n".join(parts)
            + "\n</body></html>\n"
        )

    def _head(self) -> Iterator[str]:
        outcome = self._outcome
        target = self._where or outcome.setting.store
        lock = "" if outcome.setting.lock == "lockfast" else f", lock {outcome.setting.lock}"
        yield f"<h1>The challenge of {escape(target + lock)}</h1>"
        yield (
            f'<p class="verdict {outcome.verdict}"><b>{outcome.verdict}</b> '
            f"{escape(headline(outcome))}</p>"
        )
        if outcome.verdict == "valid":
            yield f'<p class="faint small">{NO_PROOF}</p>'
        yield _tiles(counted(self._figures))
        yield "<h2>What was run</h2>"
        yield _tiles([("lockfast", lockfast.__version__), *facts(outcome.setting)], "setting")

    # -- what is wrong ---------------------------------------------------------------------

    def _findings(self) -> Iterator[str]:
        if not self._found:
            return
        yield "<h2>What was found</h2>"
        shown = _some(self._found)
        for number, one in shown:
            yield from self._finding(number, one)
        left_out = len(self._found) - len(shown)
        if left_out:
            yield f'<p class="faint">And {left_out} more of the same kinds, not shown.</p>'

    def _finding(self, number: int, one: RunFinding) -> Iterator[str]:
        colour = "noted" if one.is_documented else "wrong"
        documented = ", as documented" if one.is_documented else ""
        at, said = seconds(one.at - self._outcome.began), message(one, self._outcome)
        yield (
            f'<h3 class="{colour}" id="finding-{number}">'
            f"{number}. {escape(one.kind)}{documented}, after {at}</h3><p>{escape(said)}</p>"
        )
        name = self._names.get(one.clients[0], "") if one.clients else ""
        window = around(one, ttl=self._outcome.setting.ttl, name=name)
        yield self._picture(window, f"finding {number}", [(number, one)])
        if one.example:
            yield from self._events(one, window)

    def _events(self, one: RunFinding, window: DrawnWindow) -> Iterator[str]:
        """Yield the events that show the finding, then a folded table with nearby events, too."""
        yield f"<p>{many(len(one.example), 'event')} that show it:</p>"
        yield self._event_table(one, one.example)
        shows = set(one.example)
        beside = [
            event
            for event in self._outcome.events
            if window.start <= event.at <= window.end
            and (not window.name or event.name == window.name)
            and event not in shows
        ]
        nearest = sorted(beside, key=lambda event: abs(event.at - one.at))[:MOST_EVENTS]
        if nearest:
            some = f"{len(nearest)} of " if len(nearest) < len(beside) else ""
            yield f"<details><summary>With {some}{many(len(beside), 'event')} around them</summary>"
            yield self._event_table(one, [*one.example, *nearest])
            yield "</details>"

    def _event_table(self, one: RunFinding, events: Sequence[HistoryEvent]) -> str:
        shows = set(one.example)
        look = "shows documented" if one.is_documented else "shows"
        lines = [
            (look if event in shows else "beside", told(event, zero=self._outcome.began))
            for event in sorted(events, key=lambda event: event.at)
        ]
        return _table(("at", "who", "what"), lines)

    # -- the pictures ----------------------------------------------------------------------

    def _pictures(self) -> Iterator[str]:
        chosen = windows(self._outcome)
        yield "<h2>Who held when</h2>"
        span = sum(one.end - one.start for one in chosen)
        whole = self._outcome.ended - self._outcome.began
        if whole - span > 1e-3:  # noqa: PLR2004 - smaller is not visible
            yield (
                f'<p class="faint">{seconds(span)} of {seconds(whole)}: where something was found, '
                "and where each kind of fault struck first.</p>"
            )
        key = "".join(
            f'<span><i style="background:{look}"></i>{what}</span>' for look, what in LEGEND
        )
        yield f'<p class="key">{key}<span>&times; refused</span><span>&loz; told to stop</span></p>'
        for number, one in enumerate(chosen, 1):
            if self._outcome.setting.names > 1:
                yield f'<p class="faint small">{escape(self._heading_of(one))}</p>'
            yield self._picture(one, f"window {number} of {len(chosen)}", self._found)

    def _heading_of(self, window: DrawnWindow) -> str:
        began, setting = self._outcome.began, self._outcome.setting
        number = window.name.rpartition("-")[2]
        workload = setting.workload_of(int(number)) if number.isdigit() else setting.workload
        span = f"{seconds(window.start - began)} to {seconds(window.end - began)}"
        return f"{window.name}, {workload}, from {span}"

    def _picture(
        self, window: DrawnWindow, title: str, found: Sequence[tuple[int, RunFinding]]
    ) -> str:
        name, names = window.name, {seat(client): name for client, name in self._names.items()}
        svg = drawn(
            [row for row in self._rows if not name or names.get(row.client) == name],
            [one for one in self._outcome.strikes if not name or one.name in {"", name}],
            findings=[pair for pair in found if self._is_shown(pair[1], window)],
            writes=self._outcome.writes,
            frame=Frame(window.start, window.end, self._outcome.began),
            title=f"Who held, who waited and what struck: {title}",
        )
        return f'<div class="scroll">{svg}</div>'

    def _is_shown(self, finding: RunFinding, window: DrawnWindow) -> bool:
        names = {self._names.get(client, window.name) for client in finding.clients}
        return _touches(finding, window) and (not window.name or names <= {window.name})

    # -- the faults ------------------------------------------------------------------------

    def _faults(self) -> Iterator[str]:
        outcome = self._outcome
        yield "<h2>The faults</h2>"
        if self._figures.costs:
            yield (
                '<p class="faint small">Unavailable: the longest time that somebody waited and '
                "nobody was certainly inside. Recovers in: from the stop of the fault to the next "
                "grant, as a median.</p>"
            )
            yield _table(COSTS, [("", costs(one)) for one in self._figures.by_kind], figures_from=1)
            yield from self._strikes()
        else:
            yield "<p>None struck.</p>"
        if left := too_short(outcome):
            yield f"<p>{escape(left)}.</p>"
        if outcome.not_made:
            yield "<h3>Could not be made here</h3>"
            lines = [("", (kind, why)) for kind, why in outcome.not_made.items()]
            yield _table(("fault", "why"), lines, wraps=True)

    def _strikes(self) -> Iterator[str]:
        shown = self._figures.costs[:MOST_STRIKES]
        lines = [
            (
                "",
                (
                    f"{one.strike.began - self._outcome.began:.3f} s",
                    one.strike.kind,
                    one.strike.target,
                    seconds(one.strike.ended - one.strike.began),
                    seconds(one.unavailable),
                    "never" if one.recovered is None else seconds(one.recovered),
                ),
            )
            for one in shown
        ]
        head = ("at", "fault", "struck", "for", "unavailable", "recovers in")
        left_out = len(self._figures.costs) - len(shown)
        more = f", of {len(self._figures.costs)}" if left_out else ""
        yield f"<details><summary>Each of them: {len(shown)}{more}</summary>"
        yield _table(head, lines)
        yield "</details>"

    def _again(self) -> Iterator[str]:
        yield "<h2>To run it again</h2>"
        yield f"<pre>{escape(self._command)}</pre>"
        yield f'<p class="faint small">{NOT_FIXED}</p>'


def _some(found: Sequence[tuple[int, RunFinding]]) -> list[tuple[int, RunFinding]]:
    """Return the findings that are shown in full: a few of each kind, and not too many in total."""
    count: dict[tuple[str, bool], int] = {}
    shown: list[tuple[int, RunFinding]] = []
    for number, one in found:
        key = (one.kind, one.is_documented)
        count[key] = count.get(key, 0) + 1
        if count[key] <= MOST_OF_A_KIND and len(shown) < MOST_FINDINGS:
            shown.append((number, one))
    return shown


def _touches(one: RunFinding, window: DrawnWindow) -> bool:
    """Return whether any part of the finding is in the window; its holds may be much older."""
    times = [one.at, *(event.at for event in one.example)]
    return min(times) <= window.end and max(times) >= window.start


def _tiles(pairs: Iterable[tuple[str, str]], look: str = "") -> str:
    tiles = [
        f"<div{_broad(value)}><dt>{escape(what)}</dt><dd>{escape(value)}</dd></div>"
        for what, value in pairs
    ]
    return f'<dl class="{look}">{"".join(tiles)}</dl>'


def _broad(value: str) -> str:
    return ' class="broad"' if len(value) > 40 else ""  # noqa: PLR2004 - what fits in a tile


def _table(
    head: Sequence[str],
    lines: Iterable[tuple[str, Sequence[str]]],
    *,
    figures_from: int | None = None,
    wraps: bool = False,
) -> str:
    def cell(tag: str, column: int, text: str) -> str:
        look = "figure" if figures_from is not None and column >= figures_from else ""
        look = "long" if wraps and column else look
        return f"<{tag}{f' class={look}' if look else ''}>{escape(text)}</{tag}>"

    def line(tag: str, cells: Sequence[str]) -> str:
        return "".join(cell(tag, column, text) for column, text in enumerate(cells))

    body = "".join(
        f'<tr{f""" class="{look}" """.rstrip() if look else ""}>{line("td", cells)}</tr>'
        for look, cells in lines
    )
    return (
        f'<div class="scroll"><table><thead><tr>{line("th", head)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
