"""How a span of time is said to people."""

from __future__ import annotations

MINUTE, HOUR, DAY = 60, 3600, 86400
MILLISECOND = 0.00095
TENTHS_BELOW = 9.95


def duration(seconds: float) -> str:
    """Return a time span in the two largest units that matter."""
    if 0 < seconds < MILLISECOND:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < MINUTE:
        return f"{seconds:.0f} s" if seconds >= TENTHS_BELOW else f"{seconds:.1f} s"
    for large, unit, small, rest in ((MINUTE, "min", 1, "s"), (HOUR, "h", MINUTE, "min")):
        if seconds < large * (24 if unit == "h" else 60):
            more = int(seconds % large) // small
            return f"{int(seconds) // large} {unit}" + (f" {more} {rest}" if more else "")
    return f"{int(seconds) // DAY} d {int(seconds % DAY) // HOUR} h"
