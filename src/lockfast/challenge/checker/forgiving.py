"""Where a store's promise ends: what then happens is counted, and is no fault of the lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lockfast.challenge.checker.holds import Hold
    from lockfast.challenge.checker.sweep import Violation
    from lockfast.challenge.outcome import Strike
    from lockfast.challenge.recorded import Recorded

ON_ITS_WAY = 0.25
"""So long after the end of a fault a client may hear of what it was granted before."""


def reason_to_forgive(recorded: Recorded, violation: Violation) -> str:
    """Return why it may have come to this, as the store's page has it; empty if it may not have."""
    for strike in recorded.strikes:
        reason = recorded.forgives.get(strike.kind)
        if reason and _can_have_caused(strike, violation, ttl=recorded.ttl):
            return reason
    return ""


def _can_have_caused(strike: Strike, violation: Violation, *, ttl: float) -> bool:
    """Whether it can have touched the first of the holds, which is what the others are beside.

    A fault ends nothing early that was granted after it, so whoever overlaps with that has no
    excuse. What it did end early is believed in until its lease is over. How far a store that
    forgot is behind with its tokens is no matter of time: it is until one grows past that hold's.
    """
    if strike.began > violation.at or not _was_touched(violation.holds[0], strike):
        return False
    return violation.kind == "token" or violation.at <= strike.ended + ttl


def _was_touched(hold: Hold, strike: Strike) -> bool:
    return hold.asked <= strike.ended and hold.granted <= strike.ended + ON_ITS_WAY
