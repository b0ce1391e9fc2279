"""How facts are said to people: ages, places in line, holders. Pure."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lockfast.observe.durations import duration

if TYPE_CHECKING:
    from datetime import datetime

    from lockfast.model import Inspection


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
    text = f"held by {first.owner} for {duration(first.age)}"
    if first.token is not None:
        text += f", token {first.token}"
    return text + (f", and {len(others)} more" if others else "")


def state_since(seen: Inspection, *, now: datetime) -> str:
    """Return by whom a name is held and since when: for a log, which is read later."""
    if not seen.holders:
        return state_of(seen)
    first, *others = seen.holders
    more = f" and {len(others)} more" if others else ""
    since = now - timedelta(seconds=first.age)
    return f"held by {first.owner}{more} since {since:%Y-%m-%d %H:%M:%S %z}"


def closed(seen: Inspection) -> str:
    """Return for how long all or some of a name stays closed, and after whom; or nothing."""
    if not seen.closing:
        return ""
    last = max(seen.closing, key=lambda one: one.remaining)
    return f"closed for {duration(last.remaining)} more after {last.owner}"
