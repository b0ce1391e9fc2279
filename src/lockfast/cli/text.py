"""Plain text for people: holders, ages, places in line.

This module does not use rich, whose import would delay every `lockfast run` in cron.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from lockfast.model import ALL
from lockfast.observe.figures import duration

if TYPE_CHECKING:
    from datetime import datetime

    from lockfast import Inspection

CLEAR_LINE = "\r\x1b[K"


def is_live_terminal() -> bool:
    """Whether stderr is a terminal that can show a changing line."""
    return sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def ordinal(number: int) -> str:
    """Return the number as an ordinal: 1st, 2nd, 3rd, 4th."""
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def state_of(seen: Inspection) -> str:
    """Return who holds a name, for how long and with which token, or how long it stays closed."""
    if not seen.holders:
        return closed(seen) or "held by nobody at the moment"
    first, *others = seen.holders
    text = f"held by {first.owner} for {duration(first.age)}"
    if first.token is not None:
        text += f", token {first.token}"
    return text + (f", and {len(others)} more" if others else "")


def state_since(seen: Inspection, *, now: datetime) -> str:
    """Return who holds a name and since when, for a log that is read later."""
    if not seen.holders:
        return state_of(seen)
    first, *others = seen.holders
    more = f" and {len(others)} more" if others else ""
    since = now - timedelta(seconds=first.age)
    return f"held by {first.owner}{more} since {since:%Y-%m-%d %H:%M:%S %z}"


def closed(seen: Inspection) -> str:
    """Return how long the name stays closed, fully or in part, and after which holder; or ""."""
    if not seen.closing:
        return ""
    last = max(seen.closing, key=lambda one: one.remaining)
    return f"closed for {duration(last.remaining)} more after {last.owner}"


def kind(capacity: int) -> str:
    """Return the kind of lock that has this capacity."""
    return "read-write lock" if capacity == ALL else role(None, capacity)


def role(weight: int | None, capacity: int) -> str:
    """Return the role of a claim with this weight: "reader", "writer" or the kind of lock.

    If the weight is None, there is no claim, and the result is the kind of lock.
    """
    if capacity == ALL and weight is not None:
        return "writer" if weight == ALL else "reader"
    return _KINDS[kind_word(capacity)].format(capacity)


_KINDS = {"rwlock": "rwlock", "lock": "lock", "semaphore": "semaphore of {}"}


def kind_word(capacity: int) -> str:
    """Return the kind of lock that has this capacity, named like the method that creates it."""
    if capacity == ALL:
        return "rwlock"
    return "lock" if capacity <= 1 else "semaphore"
