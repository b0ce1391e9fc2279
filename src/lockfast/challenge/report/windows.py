"""Which parts of a run are drawn: all of a short one, of a long one those that matter."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockfast.challenge.outcome import Finding, Outcome

MOST = 12
IN_TTLS, SHORTEST = 8.0, 4.0
"""How long a window is: so many ttls, and no less than so many seconds."""
BEFORE = 4.0
"""How many ttls are shown before what no events show, as a stall."""
MARGIN = 0.15
"""How much is shown before and after the events of a finding, of the time that they take."""


@dataclass(frozen=True, slots=True)
class Window:
    """From when to when."""

    start: float
    end: float


def windows(outcome: Outcome) -> list[Window]:
    """Return the windows to draw, by time; never more than MOST.

    Those in which something is wrong come first, then those in which something documented is seen
    or a kind of fault strikes for the first time.
    """
    whole = outcome.ended - outcome.began
    if whole <= 0:
        return []
    length = max(SHORTEST, IN_TTLS * outcome.setting.ttl)
    count = ceil(whole / length)
    if count <= MOST:
        length = whole / count
        chosen = list(range(count))
    else:
        numbers = (int((at - outcome.began) / length) for at in _moments(outcome))
        chosen = sorted(list(dict.fromkeys(one for one in numbers if 0 <= one < count))[:MOST])
    starts = [outcome.began + number * length for number in chosen]
    return [Window(start, min(start + length, outcome.ended)) for start in starts]


def _moments(outcome: Outcome) -> Iterator[float]:
    """Yield the times that should be seen, those that matter most first."""
    yield from (one.at for one in outcome.findings if not one.is_documented)
    yield from _firsts((one.kind, one.at) for one in outcome.findings)
    yield from _firsts((one.kind, one.began) for one in outcome.strikes)
    yield outcome.began
    yield from (strike.began for strike in outcome.strikes)


def _firsts(moments: Iterable[tuple[str, float]]) -> Iterator[float]:
    """Yield the first of each kind."""
    seen: set[str] = set()
    for kind, at in moments:
        if kind not in seen:
            seen.add(kind)
            yield at


def around(finding: Finding, *, ttl: float) -> Window:
    """Return what is shown of a finding: its events, and a little before and after.

    Not how long its clients had waited: that may have been most of the run.
    """
    if not finding.example:
        return Window(finding.at - BEFORE * ttl, finding.at + ttl)
    waits = {("acquire", "invoked")}
    seen = [event.at for event in finding.example if (event.act, event.phase) not in waits]
    times = [finding.at, *seen]
    margin = max(MARGIN * (max(times) - min(times)), 0.05)
    return Window(min(times) - margin, max(times) + margin)
