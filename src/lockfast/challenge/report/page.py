"""The report as one page of HTML that needs nothing else: no script, no font, no network.

However long the run was, the page stays bounded: of what happened often it shows some, and says
how much it leaves out.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import lockfast
from lockfast.challenge.report.figures import figures
from lockfast.challenge.report.frame import Frame
from lockfast.challenge.report.rows import rows
from lockfast.challenge.report.style import STYLE
from lockfast.challenge.report.timeline import drawn
from lockfast.challenge.report.windows import Window, around, windows
from lockfast.challenge.report.wording import (
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

    from lockfast.challenge.history import Event
    from lockfast.challenge.outcome import Finding, Outcome
    from lockfast.challenge.report.figures import Figures
    from lockfast.challenge.report.rows import Row

MOST_FINDINGS = 12
MOST_OF_A_KIND = 4
MOST_EVENTS = 60
MOST_STRIKES = 400

KEY = (
    ("var(--faint);height:3px;vertical-align:middle", "waits"),
    ("#4a8bd0", "holds: certain"),
    ("#4a8bd0;opacity:.4", "may still hold"),
    ("#e0a100;opacity:.5", "a fault strikes"),
    ("var(--bad)", "wrong"),
    ("var(--noted)", "as documented"),
)


def page(outcome: Outcome, *, where: str = "", command: str = "") -> str:
    """Return the page.

    `where` is the URL of the deployment, without secrets, if it had one; `command` runs it again.
    """
    return _Page(outcome, where, command or again(outcome.setting, where=where)).whole()


class _Page:
    def __init__(self, outcome: Outcome, where: str, command: str) -> None:
        self._outcome = outcome
        self._where = where
        self._command = command
        self._figures: Figures = figures(outcome)
        self._rows: list[Row] = rows(outcome.events, end=outcome.ended, ttl=outcome.setting.ttl)
        self._found = numbered(outcome)

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
            f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
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

    def _finding(self, number: int, one: Finding) -> Iterator[str]:
        colour = "noted" if one.is_documented else "wrong"
        documented = ", as documented" if one.is_documented else ""
        at, said = seconds(one.at - self._outcome.began), message(one, self._outcome)
        yield (
            f'<h3 class="{colour}" id="finding-{number}">'
            f"{number}. {escape(one.kind)}{documented}, after {at}</h3><p>{escape(said)}</p>"
        )
        window = around(one, ttl=self._outcome.setting.ttl)
        yield self._picture(window, f"finding {number}", [(number, one)])
        if one.example:
            yield from self._events(one, window)

    def _events(self, one: Finding, window: Window) -> Iterator[str]:
        """Yield the events that show it, and again among those around them."""
        yield f"<p>{many(len(one.example), 'event')} that show it:</p>"
        yield self._event_table(one, one.example)
        shows = set(one.example)
        beside = [
            event
            for event in self._outcome.events
            if window.start <= event.at <= window.end and event not in shows
        ]
        nearest = sorted(beside, key=lambda event: abs(event.at - one.at))[:MOST_EVENTS]
        if nearest:
            some = f"{len(nearest)} of " if len(nearest) < len(beside) else ""
            yield f"<details><summary>With {some}{many(len(beside), 'event')} around them</summary>"
            yield self._event_table(one, [*one.example, *nearest])
            yield "</details>"

    def _event_table(self, one: Finding, events: Sequence[Event]) -> str:
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
        if whole - span > 1e-3:  # noqa: PLR2004 - less cannot be seen
            yield (
                f'<p class="faint">{seconds(span)} of {seconds(whole)}: where something was found, '
                "and where each kind of fault struck first.</p>"
            )
        key = "".join(f'<span><i style="background:{look}"></i>{what}</span>' for look, what in KEY)
        yield f'<p class="key">{key}<span>&times; refused</span><span>&loz; told to stop</span></p>'
        for number, one in enumerate(chosen, 1):
            yield self._picture(one, f"window {number} of {len(chosen)}", self._found)

    def _picture(self, window: Window, title: str, found: Sequence[tuple[int, Finding]]) -> str:
        svg = drawn(
            self._rows,
            self._outcome.strikes,
            findings=[pair for pair in found if _touches(pair[1], window)],
            writes=self._outcome.writes,
            frame=Frame(window.start, window.end, self._outcome.began),
            title=f"Who held, who waited and what struck: {title}",
        )
        return f'<div class="scroll">{svg}</div>'

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


def _some(found: Sequence[tuple[int, Finding]]) -> list[tuple[int, Finding]]:
    """Return those that are told in full: a few of each kind, and not too many."""
    count: dict[tuple[str, bool], int] = {}
    shown: list[tuple[int, Finding]] = []
    for number, one in found:
        key = (one.kind, one.is_documented)
        count[key] = count.get(key, 0) + 1
        if count[key] <= MOST_OF_A_KIND and len(shown) < MOST_FINDINGS:
            shown.append((number, one))
    return shown


def _touches(one: Finding, window: Window) -> bool:
    """Whether any of it is in the window: a hold may have begun long before."""
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
