"""What is judged while a run goes on: the last part of it, in which nothing may look cut off."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lockfast.challenge.history import begun_since

if TYPE_CHECKING:
    from lockfast.challenge.recorded import Recorded


def recent(recorded: Recorded, *, since: float, longest: float) -> Recorded:
    """Return what happened since, with what began so much earlier and may have lasted until then.

    Only since then is it judged who came in: a hold whose beginning is left out looks like nobody.
    """
    return replace(
        recorded,
        events=begun_since(recorded.events, since - longest),
        writes=[one for one in recorded.writes if one.at >= since],
        quiets=[(max(start, since), end) for start, end in recorded.quiets if end > since],
    )
