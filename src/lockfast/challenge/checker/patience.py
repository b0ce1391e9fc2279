"""How long a name may stay closed in a quiet stretch, on a machine that may be late with all of it.

What is late once is late once: one hiccup must not excuse what stood still at another time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockfast.challenge.checker.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lockfast.challenge.recorded import Recorded

LATENESS = 10.0
"""How much longer for each second that the run itself came late meanwhile: clients have as little
of the machine as it has, and each hand-over takes several of them."""


def too_long(recorded: Recorded, spans: Iterable[Span]) -> Iterator[tuple[Span, float]]:
    """Yield the parts of them in quiet stretches that are too long, and how long they may be."""
    least = recorded.ttl + recorded.bound
    quiets = [Span(start, end) for start, end in recorded.quiets]
    for one in spans:
        if one.length > least:
            for quiet in quiets:
                part = one.within(quiet)
                if part.length > least and part.length > (most := _patience(recorded, part)):
                    yield part, most


def _patience(recorded: Recorded, span: Span) -> float:
    """Return what a dead holder left, and the time to see that, as late as the machine then was.

    Also a little before: who had to wait for the machine then has begun later.
    """
    least = recorded.ttl + recorded.bound
    late = [by for at, by in recorded.hiccups if span.start - least <= at <= span.end]
    return least + LATENESS * max(late, default=0.0)
