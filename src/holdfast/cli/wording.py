"""How facts are said to people: ages, places in line, holders. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from holdfast.model import Inspection

MINUTE, HOUR, DAY = 60, 3600, 86400
TENTHS_BELOW = 9.95


def duration(seconds: float) -> str:
    """Return a time span in the two largest units that matter."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.0f} s" if seconds >= TENTHS_BELOW else f"{seconds:.1f} s"
    for large, unit, small, rest in ((MINUTE, "min", 1, "s"), (HOUR, "h", MINUTE, "min")):
        if seconds < large * (24 if unit == "h" else 60):
            more = int(seconds % large) // small
            return f"{int(seconds) // large} {unit}" + (f" {more} {rest}" if more else "")
    return f"{int(seconds) // DAY} d {int(seconds % DAY) // HOUR} h"


def ordinal(number: int) -> str:
    """Return the number as a place: 1st, 2nd, 3rd, 4th."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def state_of(seen: Inspection) -> str:
    """Return by whom a name is held, since when and with which token, or how long it is closed."""
    if not seen.holders:
        return closed(seen) or "held by nobody at the moment"
    first, *others = seen.holders
    text = f"held by {first.owner}"
    if first.age is not None:
        text += f" for {duration(first.age)}"
    if first.token is not None:
        text += f", token {first.token}"
    return text + (f", and {len(others)} more" if others else "")


def state_since(seen: Inspection, *, now: datetime) -> str:
    """Return by whom a name is held and since when: for a log, which is read later."""
    if not seen.holders:
        return state_of(seen)
    first, *others = seen.holders
    more = f" and {len(others)} more" if others else ""
    text = f"held by {first.owner}{more}"
    if first.age is None:
        return text
    return f"{text} since {now - timedelta(seconds=first.age):%Y-%m-%d %H:%M:%S %z}"


def closed(seen: Inspection) -> str:
    """Return for how long all or some of a name stays closed, and after whom; or nothing."""
    if not seen.closing:
        return ""
    last = max(seen.closing, key=lambda one: one.remaining)
    return f"closed for {duration(last.remaining)} more after {last.owner}"
