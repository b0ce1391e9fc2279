"""Why a lease was not renewed in time: the store was silent, or nobody here could ask it."""

from __future__ import annotations

NEVER = float("inf")
LATE_SECONDS = 0.25
"""A background that wakes up this much later than it meant to was kept from running. Less is
everyday on a busy machine."""


def cause_of_expiry(
    *, now: float, due: float, asked_at: float | None, wakes_at: float, stood_still: str
) -> str:
    """Return the cause as half a sentence with its seconds; "" if nothing is known of it.

    `due` is when the next renewal was due, `asked_at` when the first was sent that has not been
    answered, if any, and `wakes_at` when the background meant to look next. `stood_still` says of
    this flavour what it means if the background could not. Where a silence and a standstill
    coincide, the answer may have been there and nobody could read it: then the longer one counts.
    """
    # A background that has not begun yet means nothing; then nobody has renewed since it was due.
    began = due if wakes_at == NEVER and asked_at is None else wakes_at
    stood = max(0.0, now - began)
    silent = 0.0 if asked_at is None else now - asked_at
    if stood > LATE_SECONDS and stood >= silent / 2:
        return stood_still.format(seconds=stood)
    return "" if asked_at is None else f"the store did not answer for {silent:.1f} s"
